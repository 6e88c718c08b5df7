// `OP[@DEVICE] uses BACKEND` and `OP[@DEVICE] never uses BACKEND`
#include <algorithm>
#include <cstddef>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/libraries/backends.h"
#include "report/check/certainty.h"
#include "report/check/check_backends.h"
#include "report/check/op_on_device.h"
#include "report/check/rule_functions.h"
#include "report/model/op_call.h"

namespace optrace {
namespace {

using Path = std::vector<const Frame*>;

/// Visits the last frame of a path and all frames below it, with the path to each, until the
/// visitor returns false.
template <class Visit>
void visit_below(const Path& top, const Visit& visit) {
  std::vector<std::pair<const Frame*, std::size_t>> pending{{top.back(), top.size() - 1}};
  Path path = top;
  while (!pending.empty()) {
    const auto [frame, above] = pending.back();
    pending.pop_back();
    path.resize(above);
    path.push_back(frame);
    if (!visit(path)) return;
    for (auto child = frame->children.rbegin(); child != frame->children.rend(); ++child)
      pending.emplace_back(&*child, path.size());
  }
}

/// If no library was called, returns the path to the first device kernel, or else to the op.
Path path_to_kernel(const Path& op) {
  Path found = op;
  visit_below(op, [&](const Path& path) {
    const bool is_kernel = path.back()->layer == Layer::device;
    if (is_kernel) found = path;
    return !is_kernel;
  });
  return found;
}

/// The work of a backend, and of other libraries, below an op's call.
struct BackendWork {
  std::uint64_t calls = 0;            ///< Calls of the backend; each can belong to one op call.
  Path path{};                        ///< To the first of them.
  Path other{};                       ///< To the first call of another library.
  std::set<std::string> libraries{};  ///< The other libraries.
};

BackendWork work_below(const Path& op, const std::string& backend) {
  constexpr std::size_t kNotInside = std::numeric_limits<std::size_t>::max();
  BackendWork work;
  std::size_t inside = kNotInside;  // Length of the path to the backend's call around the frame.
  visit_below(op, [&](const Path& path) {
    const Frame& frame = *path.back();
    if (path.size() <= inside) inside = kNotInside;
    if (is_work_of(frame, backend)) {
      if (work.path.empty()) work.path = path;
      // Calls within the backend are not further calls of it.
      if (path.size() < inside) {
        work.calls += frame.calls;
        inside = path.size();
      }
    } else if (frame.layer == Layer::library && !is_library_bookkeeping(frame.name)) {
      const std::string& library = frame.detail->library;
      if (library.empty() || library == "CUDA") return true;
      work.libraries.insert(library);
      if (work.other.empty()) work.other = path;
    }
    return true;
  });
  return work;
}

class UsesCounter final : public RuleCounter {
 public:
  UsesCounter(const Rule& rule, const CheckContext& context)
      : rule_(rule),
        context_(context),
        never_(forbids(rule)),
        targets_(context.names().target_ops(rule.pattern)) {}

  /// The path that is kept leads to the cause of a failure: the forbidden backend, or the library
  /// that was used instead.
  void visit(const PathToFrame& path) override {
    const Frame& op = path.frame();
    if (!is_op_call(op) || !op.op || !targets_.names_operator(*op.op)) return;
    const std::uint64_t calls = calls_on(op, rule_.device, context_.report());
    if (calls == 0) return;
    occurrences().add(calls);
    const BackendWork work = work_below(path.frames, rule_.value);
    instead_.insert(work.libraries.begin(), work.libraries.end());
    // Calls on another device took the same path; the backend may have worked for those.
    const bool cuda_only = is_of_cuda(rule_.value);
    const std::uint64_t elsewhere = cuda_only ? 0 : op.calls - std::min(op.calls, calls);
    const std::uint64_t most = cuda_only && rule_.device == "cpu" ? 0 : std::min(work.calls, calls);
    const std::uint64_t least = std::min(most, work.calls - std::min(work.calls, elsewhere));
    using_ += least;
    doubtful_ += most - least;
    const std::uint64_t bad = never_ ? least : calls - most;
    if (bad == 0) return;
    occurrences().add_place(path, bad);
    if (!occurrences().has_path())
      occurrences().add_path(never_                ? work.path
                             : !work.other.empty() ? work.other
                                                   : path_to_kernel(path.frames));
  }

  Verdict judge() const override {
    const std::uint64_t found = occurrences().count();
    if (found == 0)
      if (const auto why = why_nothing_was_checked()) return {.undecidable = why};
    Verdict verdict{.holds = never_ ? using_ == 0 : found > 0 && using_ + doubtful_ == found,
                    .found = found_text()};
    if (verdict.holds && doubtful_ != 0)
      verdict.undecidable = {
          .why = fmt::format("{} of them took the same path as calls on another device", doubtful_),
          .remedy = "Call the op from another line, or in another function, for each device."};
    return verdict;
  }

  Sensitivity sensitivity() const override {
    constexpr Miscounts kBoth = {.too_many = true, .too_few = true};
    return {.records = {.more = true, .parts = true},
            .device = {.more = true, .parts = true},
            .places = kBoth,
            .callers = kBoth};
  }

  bool may_change_verdict(const Uncertainty& uncertainty, bool holds) const override {
    if (never_)
      return uncertainty.too_many != 0 || ((uncertainty.more || uncertainty.parts) && holds);
    // A recorded call without the backend may have lost the frames that show it.
    return uncertainty.parts || uncertainty.too_many != 0 || (uncertainty.more && holds);
  }

 private:
  std::optional<Undecidable> why_nothing_was_checked() const {
    if (context_.options().allow_unknown) return std::nullopt;
    Certainty certainty = certainty_of(rule_, targets_, 0, Observability::recorded, context_);
    if (certainty.sureness != Sureness::exact) return std::move(certainty.reason);
    if (!never_) return std::nullopt;
    return Undecidable{
        .why = never_called(rule_) + ", so the rule checked nothing",
        .remedy =
            "Trace a program that calls it, on a GPU or with --dry-run if the rule is about CUDA. "
            "--allow-unknown (in Python allow_unknown=True) accepts the rule as it is."};
  }

  std::string found_text() const {
    const std::uint64_t found = occurrences().count();
    if (found == 0) return never_called(rule_);
    std::string text = fmt::format("{} of {} call{} {} {}", using_, found, found == 1 ? "" : "s",
                                   using_ == 1 ? "uses" : "use", rule_.value);
    const bool fails = !never_ && using_ + doubtful_ != found;
    if (fails && !instead_.empty())
      text += fmt::format("; the calls used {} instead", joined(instead_, ", "));
    return text;
  }

  const Rule& rule_;
  const CheckContext& context_;
  bool never_;
  NameTargets targets_;
  std::uint64_t using_ = 0;     // Calls of the op that use the backend.
  std::uint64_t doubtful_ = 0;  // Calls that may use it.
  std::set<std::string> instead_;
};

/// Parses a sentence of which the last word is the backend.
Rule backend_of_op(const RuleSentence& sentence) {
  Rule rule;
  parse_op(sentence, sentence.word(0), rule);
  rule.value = sentence.word(sentence.size() - 1);
  if (!is_backend(rule.value))
    throw sentence.refused(fmt::format("'{}' is not a known backend", rule_excerpt(rule.value)),
                           fmt::format("The backends are: {}.", joined(backend_names(), ", ")));
  return rule;
}

}  // namespace

ParsedRule parse_uses(const RuleSentence& sentence) {
  if (sentence.size() != 3 || sentence.word(1) != "uses") return std::nullopt;
  return backend_of_op(sentence);
}

ParsedRule parse_never_uses(const RuleSentence& sentence) {
  if (sentence.size() != 4 || sentence.word(1) != "never" || sentence.word(2) != "uses")
    return std::nullopt;
  Rule rule = backend_of_op(sentence);
  forbid(rule);
  return rule;
}

StartedRule start_uses(const Rule& rule, const CheckContext& context) {
  return std::make_unique<UsesCounter>(rule, context);
}

}  // namespace optrace
