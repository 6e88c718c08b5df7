#include "src/doctor/doctor_check.h"

#include <algorithm>

namespace optrace {

std::string_view name_of(CheckState state) {
  switch (state) {
    case CheckState::ok:
      return "ok";
    case CheckState::limited:
      return "limited";
    case CheckState::missing:
      return "missing";
    case CheckState::skipped:
      break;
  }
  return "skipped";
}

DoctorCheck failed_check(std::string_view id, CheckState state, const Error& error) {
  return {.id = id, .state = state, .found = error.what(), .remedy = error.remedy()};
}

bool is_usable(const std::vector<DoctorCheck>& checks) {
  return std::ranges::find(checks, CheckState::missing, &DoctorCheck::state) == checks.end();
}

}  // namespace optrace
