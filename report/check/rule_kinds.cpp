#include "report/check/rule_kinds.h"

#include <array>

#include "report/check/rule_functions.h"
#include "report/findings/device_copies.h"
#include "report/model/op_call.h"

namespace optrace {
namespace {

// A sentence may begin like several forms: `no ...` is never an op, and a decision may end like a
// bound.
constexpr auto kKinds = std::to_array<RuleKind>({
    {"calls NAME", parse_calls, start_calls},
    {"never calls NAME", parse_never_calls, start_calls},
    {"no frame without source", parse_source, start_source},
    {"no finding", parse_finding, start_finding},
    {"no kernel of dtype", parse_dtype, start_dtype},
    {"no launch", parse_no_measure, start_measure},
    {"OP uses BACKEND", parse_uses, start_uses},
    {"OP never uses BACKEND", parse_never_uses, start_uses},
    {"OP decision FUNCTION == VALUE", parse_decision, start_decision},
    {"launches <= N", parse_measure, start_measure},
});

}  // namespace

CheckContext::CheckContext(const Report& report, const KnownNames& names,
                           const CheckOptions& options)
    : report_(report), names_(names), options_(options), graph_breaks_(find_graph_breaks(report)) {}

const std::vector<Finding>& CheckContext::findings() const {
  if (!findings_) findings_ = find(report_);
  return *findings_;
}

std::vector<std::string> CheckContext::similar_names(std::string_view unknown) const {
  constexpr std::size_t kMax = 3;
  constexpr std::size_t kMaxCorrected = 10;
  return corrected_++ < kMaxCorrected ? names_.near(unknown, kMax) : std::vector<std::string>();
}

void CheckContext::visit(const Frame& frame) {
  if (!is_op_call(frame)) return;
  const DispatchDetail& dispatch = *frame.detail->dispatch;
  arguments_.any = arguments_.any || dispatch.arguments;
  const std::uint64_t left_out = dispatch.variants_left_out;
  arguments_.left_out += left_out;
  if (may_copy_to_another_device(frame)) arguments_.left_out_copies += left_out;
}

std::span<const RuleKind> rule_kinds() {
  return kKinds;
}

}  // namespace optrace
