#pragma once

#include <memory>
#include <optional>

#include "report/check/rule_kinds.h"

namespace optrace {

// The kinds of rules; rule_kinds.cpp has their table.
using ParsedRule = std::optional<Rule>;
using StartedRule = std::unique_ptr<RuleCounter>;

// calls_rule.cpp:
ParsedRule parse_calls(const RuleSentence& sentence);
ParsedRule parse_never_calls(const RuleSentence& sentence);
StartedRule start_calls(const Rule& rule, const CheckContext& context);

// uses_rule.cpp:
ParsedRule parse_uses(const RuleSentence& sentence);
ParsedRule parse_never_uses(const RuleSentence& sentence);
StartedRule start_uses(const Rule& rule, const CheckContext& context);

// decision_rule.cpp:
ParsedRule parse_decision(const RuleSentence& sentence);
StartedRule start_decision(const Rule& rule, const CheckContext& context);

// measure_rule.cpp:
ParsedRule parse_measure(const RuleSentence& sentence);
ParsedRule parse_no_measure(const RuleSentence& sentence);
StartedRule start_measure(const Rule& rule, const CheckContext& context);

// finding_rule.cpp:
ParsedRule parse_finding(const RuleSentence& sentence);
StartedRule start_finding(const Rule& rule, const CheckContext& context);

// dtype_rule.cpp:
ParsedRule parse_dtype(const RuleSentence& sentence);
StartedRule start_dtype(const Rule& rule, const CheckContext& context);

// source_rule.cpp:
ParsedRule parse_source(const RuleSentence& sentence);
StartedRule start_source(const Rule& rule, const CheckContext& context);

}  // namespace optrace
