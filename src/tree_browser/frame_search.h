#pragma once

#include <memory>
#include <string>

#include <regex.h>

namespace optrace {

/// A text or a regular expression that frames are searched for. Upper and lower case count only if
/// the pattern has an upper-case letter.
class FrameSearch {
 public:
  /// `regex`: a POSIX extended regular expression. Throws Error(usage) if it is not valid.
  FrameSearch(std::string pattern, bool regex);

  bool matches(const std::string& text) const;
  const std::string& pattern() const { return pattern_; }

 private:
  struct Free {
    void operator()(regex_t* compiled) const;
  };

  std::string pattern_;
  bool any_case_ = false;
  std::unique_ptr<regex_t, Free> compiled_;  // Null for a text.
};

}  // namespace optrace
