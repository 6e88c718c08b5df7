#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/generator/prototype.h"

namespace optrace {

/// Start of generated code that records calls, to follow its own headers.
extern const std::string_view kRecordingPreamble;

/// Generates functions that return enumerators' names, one for each enumeration in recorded calls.
class EnumeratorNames {
 public:
  /// Returns the name of the generated function.
  std::string name_of(const Parameter& parameter);
  const std::string& text() const { return text_; }

 private:
  void write(const std::string& function,
             const std::vector<std::pair<long long, std::string>>& enumerators);

  std::map<std::vector<std::pair<long long, std::string>>, std::string> functions_;
  std::string text_;
};

/// Returns C++ code that records a call with the names of its scalar and enum arguments, if
/// anything is recording.
std::string recording_of(const Prototype& prototype, EnumeratorNames& names);

/// Returns the parameter list of such a function: a0, a1 and so on.
std::string parameters_of(const Prototype& prototype);

}  // namespace optrace
