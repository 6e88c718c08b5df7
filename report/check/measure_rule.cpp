// `MEASURE <= N` and `no MEASURE`
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "pytorch/functions/vendor_libraries.h"
#include "report/check/certainty.h"
#include "report/check/rule_functions.h"
#include "report/details/call_detail.h"
#include "report/findings/device_copies.h"
#include "report/model/op_call.h"

namespace optrace {
namespace {

std::uint64_t ops(const PathToFrame& path, const CheckContext& /*context*/) {
  return is_op_call(path.frame()) ? path.frame().calls : 0;
}

std::uint64_t kernels(const PathToFrame& path, const CheckContext& /*context*/) {
  const std::size_t depth = path.frames.size();
  const bool is_called_by_dispatcher =
      depth > 1 && path.frames[depth - 2]->detail->dispatch.has_value();
  return path.frame().layer == Layer::kernel && is_called_by_dispatcher ? path.frame().calls : 0;
}

std::uint64_t launches(const PathToFrame& path, const CheckContext& /*context*/) {
  return path.frame().layer == Layer::device ? path.frame().calls : 0;
}

std::uint64_t library_calls(const PathToFrame& path, const CheckContext& /*context*/) {
  const Frame& frame = path.frame();
  const bool is_innermost = std::ranges::none_of(
      frame.children, [](const Frame& child) { return child.layer == Layer::library; });
  return frame.layer == Layer::library && is_innermost ? calls_with_work(frame) : 0;
}

bool is_copy(const Frame* frame) {
  return is_call_of(*frame, "aten::copy_");
}

/// Returns true for a call that copies all tensors of a list with its own kernels, without
/// aten::copy_.
bool is_fused_copy(const Frame& frame) {
  if (!is_call_of(frame, "aten::_foreach_copy_")) return false;
  std::vector<const Frame*> pending{&frame};
  while (!pending.empty()) {
    const Frame* const one = pending.back();
    pending.pop_back();
    if (is_copy(one)) return false;
    for (const Frame& child : one->children) pending.push_back(&child);
  }
  return true;
}

std::uint64_t copies(const PathToFrame& path, const CheckContext& /*context*/) {
  const Frame& frame = path.frame();
  if (is_copy(&frame) || is_fused_copy(frame)) return frame.calls;
  const auto above = path.frames.end() - 1;
  if (std::any_of(path.frames.begin(), above, is_copy)) return 0;  // Counted there.
  std::uint64_t count = 0;
  for (const LibraryCall& call : frame.detail->calls)
    if (call.kind == "copy") count += call.calls;
  return count;
}

std::uint64_t synchronisations(const PathToFrame& path, const CheckContext& /*context*/) {
  const Frame& frame = path.frame();
  return frame.layer == Layer::library && waits_for_device(frame.name) ? frame.calls : 0;
}

std::uint64_t graph_breaks(const PathToFrame& path, const CheckContext& context) {
  const auto& breaks = context.graph_breaks().at;
  const auto found = breaks.find(&path.frame());
  return found == breaks.end() ? 0 : found->second;
}

std::uint64_t cpu_fallbacks(const PathToFrame& path, const CheckContext& /*context*/) {
  return path.frame().name == "at::native::cpu_fallback" ? path.frame().calls : 0;
}

std::uint64_t copies_to_other_devices(const PathToFrame& path, const CheckContext& /*context*/) {
  return implicit_copies(path.frames);
}

std::uint64_t failures(const PathToFrame& path, const CheckContext& /*context*/) {
  const auto failure = call_failure(*path.frame().detail);
  return failure ? failure->calls : 0;
}

std::optional<Undecidable> without_compiled_code(const CheckContext& context) {
  if (context.graph_breaks().compiled) return std::nullopt;
  return Undecidable{.why = "the trace has no code compiled by torch.compile",
                     .remedy = "Trace a program that runs a function compiled by torch.compile."};
}

std::optional<Undecidable> without_compilations(const CheckContext& context) {
  if (context.report().processes.size() > 1)
    return Undecidable{
        .why = "a report of several processes has the compilations of the first only",
        .remedy = "Check the trace of each process by itself."};
  if (!context.report().compilations.empty()) return std::nullopt;
  return Undecidable{.why = "torch.compile compiled nothing during the trace",
                     .remedy = "Trace a program that calls torch.compile while it is traced."};
}

/// Compilations of a function after its first are for a guard that failed.
void count_recompiles(const Report& report, Occurrences& occurrences) {
  for (const Compilation& one : report.compilations) {
    if (one.recompile_reasons.empty()) continue;
    occurrences.add(1);
    occurrences.merge_place(
        {.function = one.function, .file = one.file, .line = one.line, .count = 1});
  }
}

/// One or two spellings of the same words.
using Spellings = std::array<std::string_view, 2>;

/// A quantity that can be counted in a report. docs/check-format.md defines them.
struct Measure {
  Spellings words;             ///< `copies`, as in `copies <= 3`.
  Spellings words_after_no{};  ///< `copy`, as in `no copy`; empty if there is no such form.
  /// Counts in the last frame of a path. Null if nothing is counted in frames.
  std::uint64_t (*amount)(const PathToFrame& path, const CheckContext& context) = nullptr;
  /// Counts in the report as a whole. May be null.
  void (*count)(const Report& report, Occurrences& occurrences) = nullptr;
  bool needs_op_records = false;
  /// Returns why nothing can be counted; nothing if it can. Null if it always can.
  std::optional<Undecidable> (*why_undecidable)(const CheckContext& context) = nullptr;
  Sensitivity sensitivity{};
};

// Only Python frames show the function that requested a copy, and those that torch.compile
// returned.
constexpr Uncertainty kAnyAmount = {
    .more = true, .parts = true, .too_many = std::numeric_limits<std::uint64_t>::max()};
constexpr Uncertainty kMore = {.more = true};
constexpr Miscounts kTooManyOrFew = {.too_many = true, .too_few = true};

// In a wrong place, a kernel is not below the dispatcher, and a part of a library call or copy is
// not below the whole.
constexpr auto kMeasures = std::to_array<Measure>({
    {.words = {"ops"}, .amount = ops, .sensitivity = {.records = kMore}},
    {.words = {"kernels"},
     .amount = kernels,
     .sensitivity = {.records = kMore, .places = {.too_few = true}}},
    {.words = {"launches"},
     .words_after_no = {"launch"},
     .amount = launches,
     .sensitivity = {.device = kMore}},
    {.words = {"library calls"},
     .words_after_no = {"library call"},
     .amount = library_calls,
     .sensitivity = {.records = kMore, .places = {.too_many = true}}},
    {.words = {"copies"},
     .words_after_no = {"copy"},
     .amount = copies,
     .sensitivity = {.records = kMore, .device = kMore, .places = {.too_many = true}}},
    {.words = {"synchronisations", "synchronizations"},
     .words_after_no = {"synchronisation", "synchronization"},
     .amount = synchronisations},
    {.words = {"graph breaks"},
     .words_after_no = {"graph break"},
     .amount = graph_breaks,
     .why_undecidable = without_compiled_code,
     .sensitivity = {.python = kAnyAmount, .places = kTooManyOrFew}},
    {.words = {"recompiles"},
     .words_after_no = {"recompile"},
     .count = count_recompiles,
     .why_undecidable = without_compilations},
    {.words = {"fallbacks to CPU"}, .words_after_no = {"fallback to CPU"}, .amount = cpu_fallbacks},
    {.words = {"implicit copies"},
     .words_after_no = {"implicit copy", "implicit copy between devices"},
     .amount = copies_to_other_devices,
     .needs_op_records = true,
     .sensitivity = {.python = kAnyAmount, .records = kMore, .places = kTooManyOrFew}},
    {.words = {"failures"},
     .words_after_no = {"failure"},
     .amount = failures,
     .sensitivity = {.records = kMore}},
});

/// Returns the measure with these words; null if there is none.
const Measure* measure_named(std::string_view words, Spellings Measure::* spellings) {
  const auto found = std::ranges::find_if(kMeasures, [&](const Measure& measure) {
    return !words.empty() &&
           std::ranges::find(measure.*spellings, words) != (measure.*spellings).end();
  });
  return found == kMeasures.end() ? nullptr : &*found;
}

/// Returns all words that a measure can have.
std::vector<std::string_view> all_words() {
  std::vector<std::string_view> words;
  for (const Measure& measure : kMeasures)
    for (const std::string_view spelling : measure.words)
      if (!spelling.empty()) words.push_back(spelling);
  return words;
}

class MeasureCounter final : public RuleCounter {
 public:
  MeasureCounter(const Rule& rule, const Measure& measure, const CheckContext& context)
      : rule_(rule), measure_(measure), context_(context) {
    if (measure.count != nullptr) measure.count(context.report(), occurrences());
  }

  void visit(const PathToFrame& path) override {
    if (measure_.amount != nullptr) occurrences().add(path, measure_.amount(path, context_));
  }

  Verdict judge() const override {
    if (const auto why = why_undecidable()) return {.undecidable = why};
    const std::uint64_t found = occurrences().count();
    return {.holds = holds(found, rule_.relation, rule_.bound), .found = std::to_string(found)};
  }

  Sensitivity sensitivity() const override { return measure_.sensitivity; }

  bool may_change_verdict(const Uncertainty& uncertainty, bool /*holds*/) const override {
    return may_change_comparison(uncertainty, occurrences().count(), rule_.relation, rule_.bound);
  }

 private:
  std::optional<Undecidable> why_undecidable() const {
    if (measure_.why_undecidable != nullptr)
      if (auto why = measure_.why_undecidable(context_)) return why;
    if (!measure_.needs_op_records) return std::nullopt;
    const RecordedArguments& arguments = context_.arguments();
    if (!arguments.any) return without_op_records();
    if (arguments.left_out_copies == 0 ||
        !may_change_comparison(kMore, occurrences().count(), rule_.relation, rule_.bound))
      return std::nullopt;
    return without_some_arguments(arguments.left_out_copies);
  }

  const Rule& rule_;
  const Measure& measure_;
  const CheckContext& context_;
};

}  // namespace

ParsedRule parse_measure(const RuleSentence& sentence) {
  const std::optional<Bound> bound = sentence.bound();
  if (!bound) return std::nullopt;
  const std::string words = sentence.joined(0, sentence.size() - 2);
  const Measure* const measure = measure_named(words, &Measure::words);
  if (measure == nullptr)
    throw sentence.refused(
        fmt::format("'{}' can't be counted", rule_excerpt(words)),
        fmt::format("Use one of: {}; or calls NAME.", joined(all_words(), ", ")));
  Rule rule;
  rule.pattern = measure->words.front();
  rule.relation = bound->relation;
  rule.bound = bound->number;
  return rule;
}

ParsedRule parse_no_measure(const RuleSentence& sentence) {
  if (sentence.word(0) != "no") return std::nullopt;
  const std::string words = sentence.joined(1);
  const Measure* const measure = measure_named(words, &Measure::words_after_no);
  if (measure == nullptr)
    throw sentence.refused(fmt::format("there is no rule 'no {}'", rule_excerpt(words)));
  Rule rule;
  rule.pattern = measure->words.front();
  forbid(rule);
  return rule;
}

StartedRule start_measure(const Rule& rule, const CheckContext& context) {
  return std::make_unique<MeasureCounter>(rule, *measure_named(rule.pattern, &Measure::words),
                                          context);
}

}  // namespace optrace
