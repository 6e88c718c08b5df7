#include "report/check/check.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "platform/error.h"
#include "present/readable_numbers.h"
#include "pytorch/functions/layers.h"
#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/libraries/backends.h"
#include "pytorch/names/devices.h"
#include "pytorch/names/name_patterns.h"
#include "pytorch/symbols/symbol_name.h"
#include "report/check/check_backends.h"
#include "report/check/rule_doubt.h"
#include "report/compiled/graph_breaks.h"
#include "report/details/call_detail.h"
#include "report/details/returned_values.h"
#include "report/findings/device_copies.h"
#include "report/findings/findings.h"
#include "report/model/op_call.h"
#include "report/model/own_code.h"
#include "report/model/shortfalls.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

using Status = CheckResult::Status;
using Path = std::vector<const Frame*>;

/// Returns the name of a frame for display.
std::string shown_name(const Frame& frame) {
  return frame.detail->dispatch && frame.op ? *frame.op : short_name(frame.name);
}

/// Counts the calls of an op with a tensor of that dtype among their arguments or results.
std::uint64_t calls_on_dtype(const Frame& frame, const std::string& dtype) {
  const auto has_dtype = [&](const TensorFacts* tensor) {
    return tensor != nullptr && tensor->dtype == dtype;
  };
  if (std::ranges::any_of(results_of(frame), [&](const Result* result) {
        return has_dtype(std::get_if<TensorFacts>(&result->value));
      }))
    return frame.calls;
  std::uint64_t calls = 0;
  for (const OpCalls& kind : op_calls(frame))
    if (std::ranges::any_of(tensors_in(kind), has_dtype)) calls += kind.calls;
  return calls;
}

/// Counts the calls of an op on a device: cpu, cuda, or any if empty.
std::uint64_t calls_on(const Frame& frame, const std::string& device, const Report& report) {
  if (device.empty()) return frame.calls;
  const auto amount = [&](bool cuda, std::uint64_t calls) {
    return cuda == is_cuda(device) ? calls : 0;
  };
  const DispatchDetail& dispatch = *frame.detail->dispatch;
  if (!dispatch.choice.key_set) return amount(is_cuda(report.device), frame.calls);
  if (dispatch.variants.empty()) {
    const bool cuda = std::ranges::any_of(*dispatch.choice.key_set, [](const std::string& key) {
      return key.find("CUDA") != std::string::npos;
    });
    return amount(cuda, frame.calls);
  }
  std::uint64_t calls = 0;
  for (const OpCalls& kind : op_calls(frame)) {
    const bool cuda = std::ranges::any_of(
        tensors_in(kind), [](const TensorFacts* tensor) { return is_cuda(tensor->device); });
    calls += amount(cuda, kind.calls);
  }
  return calls;
}

bool is_innermost_library(const Frame& frame) {
  return frame.layer == Layer::library &&
         std::ranges::none_of(frame.children,
                              [](const Frame& child) { return child.layer == Layer::library; });
}

std::uint64_t calls_of_kind(const Frame& frame, std::string_view kind) {
  std::uint64_t count = 0;
  for (const LibraryCall& call : frame.detail->calls)
    if (call.kind == kind) count += call.calls;
  return count;
}

/// Returns true for a call that copies all tensors of a list with its own kernels, without
/// aten::copy_.
bool is_fused_copy(const Frame& frame) {
  if (!is_call_of(frame, "aten::_foreach_copy_")) return false;
  std::vector<const Frame*> pending{&frame};
  while (!pending.empty()) {
    const Frame* const one = pending.back();
    pending.pop_back();
    if (is_call_of(*one, "aten::copy_")) return false;
    for (const Frame& child : one->children) pending.push_back(&child);
  }
  return true;
}

/// Returns how much the last frame of the path adds to `measure`.
std::uint64_t amount(Measure measure, const Path& path, const GraphBreaks& breaks) {
  const Frame& frame = *path.back();
  const Frame* const parent = path.size() > 1 ? path[path.size() - 2] : nullptr;
  switch (measure) {
    case Measure::ops:
      return is_op_call(frame) ? frame.calls : 0;
    case Measure::kernels:
      return frame.layer == Layer::kernel && parent != nullptr && parent->detail->dispatch
                 ? frame.calls
                 : 0;
    case Measure::launches:
      return frame.layer == Layer::device ? frame.calls : 0;
    case Measure::library_calls:
      return is_innermost_library(frame) ? frame.calls : 0;
    case Measure::copies: {
      const auto is_copy = [](const Frame* one) { return is_call_of(*one, "aten::copy_"); };
      if (is_copy(&frame) || is_fused_copy(frame)) return frame.calls;
      const bool counted = std::any_of(path.begin(), path.end() - 1, is_copy);
      return counted ? 0 : calls_of_kind(frame, "copy");
    }
    case Measure::synchronisations:
      return frame.layer == Layer::library && waits_for_device(frame.name) ? frame.calls : 0;
    case Measure::graph_breaks: {
      const auto found = breaks.at.find(&frame);
      return found == breaks.at.end() ? 0 : found->second;
    }
    case Measure::recompiles:
      return 0;  // See count_recompiles().
    case Measure::cpu_fallbacks:
      return frame.name == "at::native::cpu_fallback" ? frame.calls : 0;
    case Measure::implicit_copies:
      return implicit_copies(path);
    case Measure::failures: {
      const auto failure = call_failure(*frame.detail);
      return failure ? failure->calls : 0;
    }
  }
  return 0;
}

/// Counts the calls of a library function that are recorded in the frame and have no frame of their
/// own.
std::uint64_t calls_inside(const NameMeaning& meaning, const Frame& frame) {
  const auto has_frame = [&](const std::string& name) {
    return std::ranges::find(frame.children, name, &Frame::name) != frame.children.end();
  };
  std::uint64_t count = 0;
  for (const LibraryCall& call : frame.detail->calls)
    if (!call.function.empty() && call.library != "oneDNN" && meaning.names(call.function) &&
        !has_frame(call.function))
      count += call.calls;
  return count;
}

/// Returns true for a frame of PyTorch without a source, although an index or Python could provide
/// one.
bool lacks_source(const Frame& frame) {
  const bool told = frame.layer == Layer::python || frame.layer == Layer::binding ||
                    frame.layer == Layer::dispatcher || frame.layer == Layer::autograd ||
                    frame.layer == Layer::kernel;
  return told && (!frame.source || frame.source->file.empty());
}

/// The counts for one rule during the walk of the tree.
struct Tally {
  std::uint64_t found = 0;
  std::optional<Path> first;
  std::vector<CheckPlace> places;  // In the order of first occurrence.
  std::map<std::pair<std::string_view, std::uint32_t>, std::size_t> known_places;
  std::string first_finding;  // Only for `no_finding`.
  // Only for `uses`: calls that use the backend, calls that may use it, and libraries used instead.
  std::uint64_t good = 0;
  std::uint64_t doubtful = 0;
  std::set<std::string> instead;
  // Only for `decision`: the values with their number of calls, and calls whose value is not known.
  std::map<std::string, std::uint64_t> values;
  std::uint64_t without_value = 0;
};

class Check {
 public:
  Check(const Report& report, const KnownNames& names, const std::vector<Rule>& rules,
        const CheckOptions& options)
      : report_(report),
        names_(names),
        rules_(rules),
        options_(options),
        tallies_(rules.size()),
        breaks_(find_graph_breaks(report)) {
    if (rules.size() > kMaxRules)
      throw Error(ExitStatus::usage,
                  fmt::format("there are {} rules, more than {}", rules.size(), kMaxRules),
                  "Check fewer at a time.");
    for (const Rule& rule : rules) meanings_.push_back(meaning_of(rule));
  }

  std::vector<CheckResult> run() {
    walk();
    count_what_is_not_shown();
    count_findings();
    count_recompiles();
    std::vector<CheckResult> results;
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      CheckResult& result = results.emplace_back();
      result.rule = rules_[i];
      if (report_.roots.empty()) {
        result.status = Status::failed;
        result.found = "nothing: the report is empty";
        continue;
      }
      Tally& tally = tallies_[i];
      judge(tally, meanings_[i], result);
      if (tally.first) result.path = steps_of(*tally.first);
      result.places = std::move(tally.places);
      std::ranges::stable_sort(result.places, std::ranges::greater(), &CheckPlace::count);
    }
    return results;
  }

 private:
  NameMeaning meaning_of(const Rule& rule) const {
    switch (rule.kind) {
      case Rule::Kind::calls:
        return names_.meaning_of(rule.pattern);
      case Rule::Kind::uses:
      case Rule::Kind::never_uses:
      case Rule::Kind::decision:
        return names_.ops_meant_by(rule.pattern);
      default:
        return {};
    }
  }

  /// Reports leave out calls below which they show nothing.
  void count_what_is_not_shown() {
    for (std::size_t i = 0; i < rules_.size(); ++i)
      if (rules_[i].kind == Rule::Kind::calls)
        tallies_[i].found = std::max(tallies_[i].found, names_.recorded_calls(meanings_[i]));
  }

  void count_findings() {
    const auto is_such = [](const Rule& rule) { return rule.kind == Rule::Kind::no_finding; };
    if (std::ranges::none_of(rules_, is_such)) return;
    for (const Finding& finding : find(report_))
      for (std::size_t i = 0; i < rules_.size(); ++i)
        if (is_such(rules_[i]) &&
            (rules_[i].pattern.empty() || rules_[i].pattern == finding.rule->name))
          note_finding(finding, tallies_[i]);
  }

  /// Compilations of a function after its first are for a guard that failed.
  void count_recompiles() {
    for (const Compilation& one : report_.compilations) {
      if (one.recompile_reasons.empty()) continue;
      const CheckPlace place{
          .function = one.function, .file = one.file, .line = one.line, .count = 1};
      for (std::size_t i = 0; i < rules_.size(); ++i)
        if (is_about_recompiles(rules_[i])) note_recompile(place, tallies_[i]);
    }
  }

  static bool is_about_recompiles(const Rule& rule) {
    return rule.kind == Rule::Kind::measure && rule.measure == Measure::recompiles;
  }

  static void note_recompile(const CheckPlace& place, Tally& tally) {
    ++tally.found;
    const auto known = std::ranges::find_if(tally.places, [&](const CheckPlace& one) {
      return one.file == place.file && one.line == place.line;
    });
    if (known == tally.places.end())
      tally.places.push_back(place);
    else
      ++known->count;
  }

  static void note_finding(const Finding& finding, Tally& tally) {
    ++tally.found;
    tally.places.push_back({.function = finding.function,
                            .file = finding.file,
                            .line = finding.line,
                            .count = finding.calls});
    if (tally.first) return;
    tally.first = {finding.in_function};
    for (const Frame* const frame : finding.evidence)
      if (frame != finding.in_function) tally.first->push_back(frame);
    tally.first_finding = fmt::format("{}: {}", finding.rule->name, finding.message);
  }

  void walk() {
    Path path;
    walk_frames(report_.roots, std::size_t{0}, [&](const Frame& frame, std::size_t above) {
      path.resize(above);
      path.push_back(&frame);
      own_.resize(above);
      own_.push_back(own_place(path, above == 0 ? kNoneOwn : own_.back()));
      python_.resize(above);
      python_.push_back(above == 0 ? std::string_view() : inside_of(*path[above - 1]));
      note_records(frame);
      for (std::size_t i = 0; i < rules_.size(); ++i) note(i, path);
      return path.size();
    });
  }

  /// Returns the innermost Python function at a frame, for which `python_` has the last entry.
  std::string_view inside_of(const Frame& frame) const {
    return frame.layer == Layer::python ? std::string_view(frame.name) : python_.back();
  }

  void note_records(const Frame& frame) {
    if (!is_op_call(frame)) return;
    const DispatchDetail& dispatch = *frame.detail->dispatch;
    records_ = records_ || dispatch.arguments;
    const std::uint64_t left_out = dispatch.variants_left_out;
    left_out_ += left_out;
    if (may_copy_to_another_device(frame)) left_out_copies_ += left_out;
  }

  void note(std::size_t number, const Path& path) {
    const Rule& rule = rules_[number];
    const NameMeaning& meaning = meanings_[number];
    Tally& tally = tallies_[number];
    const Frame& frame = *path.back();
    std::uint64_t more = 0;
    switch (rule.kind) {
      case Rule::Kind::calls:
        more = meaning.names(frame, python_.back()) ? frame.calls : calls_inside(meaning, frame);
        break;
      case Rule::Kind::measure:
        more = amount(rule.measure, path, breaks_);
        break;
      case Rule::Kind::no_dtype:
        more = is_op_call(frame) ? calls_on_dtype(frame, rule.dtype) : 0;
        break;
      case Rule::Kind::has_sources:
        more = lacks_source(frame) ? 1 : 0;
        break;
      case Rule::Kind::no_finding:
        return;
      case Rule::Kind::uses:
      case Rule::Kind::never_uses:
        note_use(rule, meaning, tally, path);
        return;
      case Rule::Kind::decision:
        note_decision(rule, meaning, tally, path);
        return;
    }
    if (more == 0) return;
    tally.found += more;
    if (!tally.first) tally.first = path;
    note_place(tally, path, more);
  }

  void note_place(Tally& tally, const Path& path, std::uint64_t count) const {
    const std::size_t at = own_.back();
    const FrameSource* const source = at == kNoneOwn ? nullptr : source_at(path, at);
    if (source == nullptr) return;
    const FrameSource* const next = source_at(path, at + 1);
    const std::uint32_t line = calling_line(path, at);
    const std::optional<CallRange> range = next != nullptr ? next->call_range : std::nullopt;
    const auto [known, is_new] =
        tally.known_places.try_emplace({source->file, line}, tally.places.size());
    if (is_new)
      tally.places.push_back(
          {.function = shown_name(*path[at]), .file = source->file, .line = line, .range = range});
    CheckPlace& place = tally.places[known->second];
    place.count += count;
    if (place.range != range) place.range.reset();
  }

  /// Counts an op's calls. `first` becomes the path to the cause of a failure: the forbidden
  /// backend, or the library that was used instead.
  void note_use(const Rule& rule, const NameMeaning& meaning, Tally& tally, const Path& path) {
    const Frame& op = *path.back();
    if (!is_op_call(op) || !op.op || !meaning.names_operator(*op.op)) return;
    const std::uint64_t calls = calls_on(op, rule.device, report_);
    if (calls == 0) return;
    tally.found += calls;
    Path good;
    Path other;
    std::uint64_t good_calls = 0;  // Calls of the backend; each can belong to one op call.
    std::size_t good_depth = path.size();
    std::vector<std::pair<const Frame*, std::size_t>> pending{{&op, path.size() - 1}};
    Path way = path;
    while (!pending.empty()) {
      const auto [frame, above] = pending.back();
      pending.pop_back();
      way.resize(above);
      way.push_back(frame);
      if (way.size() <= good_depth) good_depth = std::numeric_limits<std::size_t>::max();
      if (is_work_of(*frame, rule.backend)) {
        if (good.empty()) good = way;
        // Calls within the backend are not further calls of it.
        if (way.size() < good_depth) {
          good_calls += frame->calls;
          good_depth = way.size();
        }
      }
      if (frame->layer == Layer::library && !is_library_bookkeeping(frame->name)) {
        if (const std::string& library = frame->detail->library;
            !library.empty() && library != "CUDA" && !is_work_of(*frame, rule.backend)) {
          tally.instead.insert(library);
          if (other.empty()) other = way;
        }
      }
      for (auto child = frame->children.rbegin(); child != frame->children.rend(); ++child)
        pending.emplace_back(&*child, way.size());
    }
    const bool never = rule.kind == Rule::Kind::never_uses;
    // Calls on another device took the same path; the backend may have worked for those.
    const bool cuda_only = is_of_cuda(rule.backend);
    const std::uint64_t elsewhere = cuda_only ? 0 : op.calls - std::min(op.calls, calls);
    const std::uint64_t most = cuda_only && rule.device == "cpu" ? 0 : std::min(good_calls, calls);
    const std::uint64_t least = std::min(most, good_calls - std::min(good_calls, elsewhere));
    tally.good += least;
    tally.doubtful += most - least;
    const std::uint64_t bad = never ? least : calls - most;
    if (bad == 0) return;
    note_place(tally, path, bad);
    if (!tally.first) tally.first = never ? good : !other.empty() ? other : own_work(path);
  }

  /// Counts what a function returned in calls of an op. The innermost call of the op counts.
  void note_decision(const Rule& rule, const NameMeaning& meaning, Tally& tally,
                     const Path& path) const {
    const Frame& function = *path.back();
    if (function.layer == Layer::python || is_op_call(function)) return;
    if (!names_function(rule.function, function.name) &&
        !names_function("*::" + rule.function, function.name))
      return;
    const bool in_op = std::any_of(path.begin(), path.end(), [&](const Frame* frame) {
      return is_op_call(*frame) && frame->op && meaning.names_operator(*frame->op) &&
             calls_on(*frame, rule.device, report_) != 0;
    });
    if (!in_op) return;
    const ReturnedValues returned = function.detail->returned.value_or(ReturnedValues());
    std::uint64_t known = 0;
    for (const CountedResult& value : returned.values) {
      known += value.calls;
      tally.values[value_text(value, returned.type)] += value.calls;
      if (is_value(value, returned.type, rule.value) != (rule.relation == Relation::equal)) {
        tally.found += value.calls;
        if (!tally.first) tally.first = path;
      }
    }
    tally.good += known;
    tally.without_value += function.calls - std::min(function.calls, known);
  }

  /// Returns true if a value is spelled like this: `Mkldnn` or `ConvBackend::Mkldnn`, with any more
  /// of its scope.
  static bool is_value(const CountedResult& value, const std::string& type,
                       const std::string& spelling) {
    const auto* const number = std::get_if<std::int64_t>(&value.value);
    return spelling == value_text(value, type) || spelling == value.name ||
           spelling == fmt::format("{}::{}", type, value.name) ||
           (number != nullptr && spelling == std::to_string(*number));
  }

  /// If no library was called, returns the path to the first device kernel, or else to the op.
  static Path own_work(const Path& op) {
    Path way = op;
    std::vector<std::pair<const Frame*, std::size_t>> pending{{op.back(), op.size() - 1}};
    while (!pending.empty()) {
      const auto [frame, above] = pending.back();
      pending.pop_back();
      way.resize(above);
      way.push_back(frame);
      if (frame->layer == Layer::device) return way;
      for (auto child = frame->children.rbegin(); child != frame->children.rend(); ++child)
        pending.emplace_back(&*child, way.size());
    }
    return op;
  }

  void judge(const Tally& tally, const NameMeaning& meaning, CheckResult& result) const {
    const Rule& rule = result.rule;
    if (const std::string why = cannot_tell(rule, meaning, tally, result.remedy); !why.empty()) {
      result.status = Status::error;
      result.found = why;
      return;
    }
    bool good = false;
    switch (rule.kind) {
      case Rule::Kind::calls:
        good = holds(tally.found, rule.relation, rule.bound);
        result.found = tally.found == 0 ? "never called" : "called " + counted(tally.found, "time");
        break;
      case Rule::Kind::measure:
        good = holds(tally.found, rule.relation, rule.bound);
        result.found = std::to_string(tally.found);
        break;
      case Rule::Kind::no_dtype:
        good = tally.found == 0;
        result.found = good ? "none"
                            : fmt::format("ops called {} on tensors of {}",
                                          counted(tally.found, "time"), rule.dtype);
        break;
      case Rule::Kind::has_sources:
        good = tally.found == 0;
        result.found = good ? "none" : fmt::format("{} of them", tally.found);
        break;
      case Rule::Kind::no_finding:
        good = tally.found == 0;
        result.found = good               ? "none"
                       : tally.found == 1 ? tally.first_finding
                                          : fmt::format("{} findings; the first is {}", tally.found,
                                                        tally.first_finding);
        break;
      case Rule::Kind::decision: {
        good = tally.found == 0;
        std::vector<std::string> values;
        values.reserve(tally.values.size());
        for (const auto& [value, calls] : tally.values)
          values.push_back(fmt::format("{} {}", value, counted(calls, "time")));
        result.found = fmt::format("{} returned {}", rule.function, fmt::join(values, ", "));
        break;
      }
      case Rule::Kind::uses:
      case Rule::Kind::never_uses: {
        const bool never = rule.kind == Rule::Kind::never_uses;
        good =
            never ? tally.good == 0 : tally.found > 0 && tally.good + tally.doubtful == tally.found;
        result.found = tally.found == 0
                           ? never_called(rule)
                           : fmt::format("{} of {} call{} {} {}", tally.good, tally.found,
                                         tally.found == 1 ? "" : "s",
                                         tally.good == 1 ? "uses" : "use", rule.backend);
        if (!never && !good && !tally.instead.empty())
          result.found +=
              fmt::format("; the calls used {} instead", fmt::join(tally.instead, ", "));
        break;
      }
    }
    result.status = good ? Status::passed : Status::failed;
    if (rule.kind == Rule::Kind::decision && good && tally.without_value != 0)
      cannot_tell_because(
          fmt::format("what {} more calls returned was not recorded", tally.without_value),
          "Trace with --decisions all. Calls through pointers are never recorded.", result);
    else if (good && tally.doubtful != 0)
      cannot_tell_because(
          fmt::format("{} of them took the same path as calls on another device", tally.doubtful),
          "Call the op from another line, or in another function, for each device.", result);
    else if (const Shortfall* const shortfall = what_could_turn(rule, meaning, tally, good))
      cannot_tell_because(sentence_of(*shortfall), std::string(kind_of(*shortfall).remedy), result);
  }

  /// Returns the first shortfall that could change the verdict; null if none could.
  const Shortfall* what_could_turn(const Rule& rule, const NameMeaning& meaning, const Tally& tally,
                                   bool good) const {
    const auto found = std::ranges::find_if(report_.shortfalls, [&](const Shortfall& shortfall) {
      return can_turn(doubt_of(shortfall, rule, meaning), rule, tally.found, good);
    });
    return found == report_.shortfalls.end() ? nullptr : &*found;
  }

  static void cannot_tell_because(const std::string& why, std::string remedy, CheckResult& result) {
    result.status = Status::error;
    result.found += fmt::format(", but {}, so the rule can't be decided", why);
    result.remedy = std::move(remedy);
  }

  /// Returns why the rule can't be decided for this report; empty if it can.
  std::string cannot_tell(const Rule& rule, const NameMeaning& meaning, const Tally& tally,
                          std::string& remedy) const {
    switch (rule.kind) {
      case Rule::Kind::calls:
      case Rule::Kind::uses:
      case Rule::Kind::never_uses:
        return tally.found > 0 || options_.allow_unknown ? ""
                                                         : why_never_found(rule, meaning, remedy);
      case Rule::Kind::measure:
        if (rule.measure == Measure::recompiles) return why_recompiles_unknown(remedy);
        if (rule.measure == Measure::graph_breaks && !breaks_.compiled) {
          remedy = "Trace a program that runs a function compiled by torch.compile.";
          return "the trace has no code compiled by torch.compile";
        }
        if (rule.measure != Measure::implicit_copies) return {};
        [[fallthrough]];
      case Rule::Kind::no_dtype:
        if (records_) return why_incomplete(rule, tally, remedy);
        remedy = "Trace on a machine with a C++ compiler, which op records need.";
        return "the report has no op arguments";
      case Rule::Kind::decision:
        if (tally.good != 0) return {};
        remedy =
            "Name a function that the report shows with a value (→), such as use_mkldnn, and trace "
            "with --decisions all. Functions that the compiler inlined return nothing.";
        return fmt::format("no value that {} returned in {} was recorded", rule.function,
                           rule.pattern);
      case Rule::Kind::no_finding:
        if (records_) return {};
        remedy = "Trace on a machine with a C++ compiler, which op records need.";
        return "the report has no op arguments, which most findings need";
      case Rule::Kind::has_sources:
        if (!report_.source_version.empty()) return {};
        remedy = "Create an index of PyTorch's source: optrace source fetch.";
        return "there was no index of PyTorch's source when the report was made";
    }
    return {};
  }

  std::string why_recompiles_unknown(std::string& remedy) const {
    if (report_.processes.size() > 1) {
      remedy = "Check the trace of each process by itself.";
      return "a report of several processes has the compilations of the first only";
    }
    if (!report_.compilations.empty()) return {};
    remedy = "Trace a program that calls torch.compile while it is traced.";
    return "torch.compile compiled nothing during the trace";
  }

  /// Returns why calls whose arguments are missing could change the verdict; empty if none could.
  std::string why_incomplete(const Rule& rule, const Tally& tally, std::string& remedy) const {
    const bool dtype = rule.kind == Rule::Kind::no_dtype;
    const std::uint64_t left_out = dtype ? left_out_ : left_out_copies_;
    const bool good = dtype ? tally.found == 0 : holds(tally.found, rule.relation, rule.bound);
    if (left_out == 0 || !can_turn({.more = true}, rule, tally.found, good)) return {};
    remedy = "Trace fewer ops (--ops, --count), or a part of the program.";
    return fmt::format(
        "the arguments of {} op call{} are not in the report, which keeps {} different calls for "
        "each path",
        left_out, left_out == 1 ? "" : "s", kMaxTallies);
  }

  /// Returns why the absence of calls proves nothing; empty if it does.
  std::string why_never_found(const Rule& rule, const NameMeaning& meaning,
                              std::string& remedy) const {
    const Knowledge known = names_.knowledge_of(meaning);
    if (known == Knowledge::none) {
      remedy = why_unknown(rule.pattern);
      return fmt::format("no known name matches {}, so the rule could never fail", rule.pattern);
    }
    if (known == Knowledge::unrecorded) {
      remedy =
          "Name an op, or a function that does the work. --allow-unknown (in Python "
          "allow_unknown=True) accepts the rule as it is.";
      return fmt::format("no trace can show calls of {}: {}", rule.pattern,
                         meaning.why_untold.empty()
                             ? "it is a type, a function that is inlined into others, or one that "
                               "optrace does not record"
                             : meaning.why_untold);
    }
    if (known == Knowledge::by_record && !records_) {
      remedy = "Trace on a machine with a C++ compiler, which op records need.";
      return fmt::format("only op records show calls of {}, and the report has none", rule.pattern);
    }
    if (known == Knowledge::unshown && !names_.has_traces()) {
      remedy = "Check the trace itself (--trace FILE), which has all calls.";
      return fmt::format("a report omits {} where it leads to no frame that the report shows",
                         rule.pattern);
    }
    if (rule.kind != Rule::Kind::never_uses) return {};
    remedy =
        "Trace a program that calls it, on a GPU or with --dry-run if the rule is about CUDA. "
        "--allow-unknown (in Python allow_unknown=True) accepts the rule as it is.";
    return never_called(rule) + ", so the rule checked nothing";
  }

  static std::string never_called(const Rule& rule) {
    return fmt::format("{} was never called{}{}", rule.pattern, rule.device.empty() ? "" : " on ",
                       rule.device);
  }

  std::string why_unknown(const std::string& pattern) const {
    if (!names_.complete())
      return "There is no index of PyTorch's source, which has the names that were not called "
             "(optrace source fetch creates one). --allow-unknown (in Python allow_unknown=True) "
             "accepts the rule as it is.";
    constexpr std::size_t kMax = 3;
    // Searching for similar names is slow; with more unknown names than this, all rules are likely
    // wrong.
    constexpr std::size_t kMaxCorrected = 10;
    const std::vector<std::string> near =
        corrected_++ < kMaxCorrected ? names_.near(pattern, kMax) : std::vector<std::string>();
    return fmt::format(
        "{}--allow-unknown (in Python allow_unknown=True) accepts the rule as it is.",
        near.empty()
            ? "Correct the name: `optrace locate NAME` and `optrace explain OP` find names. "
            : fmt::format("Did you mean {}? ", fmt::join(near, ", ")));
  }

  static std::vector<CheckStep> steps_of(const Path& path) {
    std::vector<CheckStep> steps;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const Frame& frame = *path[i];
      CheckStep& step = steps.emplace_back();
      step.layer = frame.layer;
      step.name = shown_name(frame);
      if (!frame.source) continue;
      step.file = frame.source->file;
      step.line = frame.source->line;
      step.exact = !frame.source->approximate;
      if (const FrameSource* const next = source_at(path, i + 1);
          next != nullptr && next->call_line) {
        step.line = *next->call_line;
        step.exact = !next->call_approximate;
      }
    }
    return steps;
  }

  const Report& report_;
  const KnownNames& names_;
  const std::vector<Rule>& rules_;
  const CheckOptions& options_;
  std::vector<Tally> tallies_;
  std::vector<std::size_t> own_;          // For each frame of the path: see own_place().
  std::vector<NameMeaning> meanings_;     // For each rule.
  std::vector<std::string_view> python_;  // For each frame of the path: the Python function above.
  mutable std::size_t corrected_ = 0;     // Unknown names for which similar ones were looked up.
  GraphBreaks breaks_;
  bool records_ = false;  // At least one op has a record.
  // Op calls without records, and among them those of ops that may copy to another device.
  std::uint64_t left_out_ = 0;
  std::uint64_t left_out_copies_ = 0;
};

}  // namespace

std::vector<CheckResult> check(const Report& report, const KnownNames& names,
                               const std::vector<Rule>& rules, const CheckOptions& options) {
  return Check(report, names, rules, options).run();
}

CheckResult::Status status_of(const std::vector<CheckResult>& results) {
  Status worst = Status::passed;
  for (const CheckResult& result : results) worst = std::max(worst, result.status);
  return worst;
}

}  // namespace optrace
