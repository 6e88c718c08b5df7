#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tracer/device_generator/prototype.h"

namespace optrace {

/// What generated code that records calls starts with, behind its own headers.
extern const std::string_view kRecordingPreamble;

/// Functions that give the enumerators' names, one for each enumeration that calls record.
class EnumeratorNames {
 public:
  /// The function's name.
  std::string name_of(const Parameter& parameter);
  const std::string& text() const { return text_; }

 private:
  void write(const std::string& function,
             const std::vector<std::pair<long long, std::string>>& enumerators);

  std::map<std::vector<std::pair<long long, std::string>>, std::string> functions_;
  std::string text_;
};

/// C++ that records a call with its scalar and enum arguments, by name, if anything is recording.
std::string recording_of(const Prototype& prototype, EnumeratorNames& names);

/// The parameters of such a function: a0, a1 and so on.
std::string parameters_of(const Prototype& prototype);

}  // namespace optrace
