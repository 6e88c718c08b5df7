#pragma once

#include <string>
#include <vector>

#include "present/terminal_text.h"
#include "src/doctor/doctor_check.h"

namespace optrace {

/// For people: a line for each check, with the remedy below it.
std::string to_text(const std::vector<DoctorCheck>& checks, const TerminalStyle& style);

/// For programs: schema optrace.doctor/1.
std::string to_json(const std::vector<DoctorCheck>& checks);

}  // namespace optrace
