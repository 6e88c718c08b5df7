// `no frame without source`
#include <fmt/core.h>

#include "report/check/rule_functions.h"

namespace optrace {
namespace {

/// Returns true for a frame of PyTorch without a source, although an index or Python could provide
/// one.
bool lacks_source(const Frame& frame) {
  const bool may_have_one = frame.layer == Layer::python || frame.layer == Layer::binding ||
                            frame.layer == Layer::dispatcher || frame.layer == Layer::autograd ||
                            frame.layer == Layer::kernel;
  return may_have_one && (!frame.source || frame.source->file.empty());
}

class SourceCounter final : public RuleCounter {
 public:
  explicit SourceCounter(const Report& report) : report_(report) {}

  void visit(const PathToFrame& path) override {
    if (lacks_source(path.frame())) occurrences().add(path, 1);
  }

  Verdict judge() const override {
    if (report_.source_version.empty())
      return {.undecidable = Undecidable{
                  .why = "there was no index of PyTorch's source when the report was made",
                  .remedy = "Create an index of PyTorch's source: optrace source fetch."}};
    const std::uint64_t found = occurrences().count();
    return {.holds = found == 0, .found = found == 0 ? "none" : fmt::format("{} of them", found)};
  }

  Sensitivity sensitivity() const override { return {.python = {.more = true}}; }

  bool may_change_verdict(const Uncertainty& uncertainty, bool holds) const override {
    return uncertainty.more && holds;
  }

 private:
  const Report& report_;
};

}  // namespace

ParsedRule parse_source(const RuleSentence& sentence) {
  if (sentence.joined(0) != "no frame without source") return std::nullopt;
  return Rule();
}

StartedRule start_source(const Rule& /*rule*/, const CheckContext& context) {
  return std::make_unique<SourceCounter>(context.report());
}

}  // namespace optrace
