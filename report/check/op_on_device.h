#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/check/check_rules.h"
#include "report/model/report.h"

namespace optrace {

/// Sets pattern and device of a rule from `OP[@DEVICE]`. Throws Error(usage) if the word is none.
void parse_op(const RuleSentence& sentence, std::string_view word, Rule& rule);

/// Counts the calls of an op on a device: cpu, cuda, or any if empty.
std::uint64_t calls_on(const Frame& op, const std::string& device, const Report& report);

}  // namespace optrace
