#include "report/compare/compare.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "platform/text/joined.h"
#include "pytorch/functions/layers.h"
#include "pytorch/symbols/symbol_name.h"
#include "report/compare/call_difference.h"
#include "report/compare/compared_step.h"
#include "report/compare/frame_matcher.h"
#include "report/details/returned_values.h"
#include "report/model/op_call.h"
#include "report/model/shortfalls.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

/// A part of a detail that records a decision.
struct Decision {
  const char* what;  ///< Difference::what
  const std::string& (*of)(const Detail& detail);
};

/// Tensor sizes and counts are not decisions.
constexpr auto kDecisions = std::to_array<Decision>({
    {"dispatch_key",
     [](const Detail& detail) -> const std::string& {
       return detail.dispatch->choice.dispatch_key;
     }},
    {"kernel",
     [](const Detail& detail) -> const std::string& { return detail.dispatch->choice.kernel; }},
    {"dispatch",
     [](const Detail& detail) -> const std::string& { return detail.dispatch->choice.dispatch; }},
    {"cpu_capability",
     [](const Detail& detail) -> const std::string& { return detail.cpu_capability; }},
    {"implementation",
     [](const Detail& detail) -> const std::string& { return detail.implementation; }},
});

/// Removes the parts of a text that differ from build to build, which are folders, lines, and the
/// numbers of generated files: `RegisterCPU.cpp [kernel]` for `registered at
/// /build/RegisterCPU_1.cpp:30477 [kernel]`.
std::string without_places(const std::string& text) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    std::string word = text.substr(at, end - at);
    at = end + 1;
    if (const std::size_t suffix = word.find(".cpp"); suffix != std::string::npos) {
      word.resize(suffix);
      word = word.substr(word.rfind('/') + 1);
      const std::size_t name_end = word.find_last_not_of("0123456789");
      if (name_end != std::string::npos && name_end + 1 < word.size() && word[name_end] == '_')
        word.resize(name_end);
      word += ".cpp";
    } else if (const std::size_t line = word.rfind(':');
               line != std::string::npos && line + 1 < word.size() &&
               word.find_first_not_of("0123456789", line + 1) == std::string::npos) {
      word.resize(line);
    }
    kept += kept.empty() ? word : " " + word;
  }
  constexpr std::string_view kRegistered = "registered at ";
  return kept.starts_with(kRegistered) ? kept.substr(kRegistered.size()) : kept;
}

/// Returns a library's name, or its file name without the version, which differs between releases
/// of CUDA.
std::string library_of(const Frame& frame) {
  if (frame.layer != Layer::library) return {};
  if (const std::string& name = frame.detail->library; !name.empty()) return name;
  const std::string file = frame.library.value_or("");
  return file.substr(0, file.find(".so"));
}

std::size_t count_emulated_reads(const Report& report) {
  if (!report.dry_run) return 0;
  std::size_t count = 0;
  std::vector<const std::vector<Frame>*> pending{&report.roots};
  while (!pending.empty()) {
    const std::vector<Frame>* const frames = pending.back();
    pending.pop_back();
    for (const Frame& frame : *frames) {
      if (frame.detail->reads_device_memory) ++count;
      pending.push_back(&frame.children);
    }
  }
  return count;
}

/// Returns the calls of each Python function; none if the report doesn't have all of them.
CallsByName python_totals(const Report& report) {
  CallsByName totals;
  if (!report.python_calls) return totals;
  walk_frames(report.roots, 0, [&](const Frame& frame, int) {
    if (frame.layer == Layer::python) totals[frame.name] += frame.calls;
    return 0;
  });
  for (const auto& [name, calls] : *report.python_calls) totals[name] = calls;
  return totals;
}

/// Returns the number of calls of ops below a frame.
std::uint64_t ops_below(const Frame& top) {
  std::uint64_t calls = 0;
  walk_frames(top.children, 0, [&](const Frame& frame, int) {
    if (is_op_call(frame)) calls += frame.calls;
    return 0;
  });
  return calls;
}

/// Finds the differences between two reports.
class Comparer {
 public:
  Comparer(const Report& first, const Report& second, const CompareOptions& options)
      : first_(first),
        second_(second),
        steps_(options.all || is_same_build(first, second)),
        matcher_(keys_, is_same_build(first, second)),
        totals_{python_totals(first), python_totals(second)} {
    result_.same_build = is_same_build(first, second);
    result_.conclusive =
        !may_hide_differences(first.shortfalls) && !may_hide_differences(second.shortfalls);
    result_.emulated_reads = count_emulated_reads(first) + count_emulated_reads(second);
  }

  Comparison run() {
    std::vector<Level> open;
    open.push_back(
        level_of(first_.roots, second_.roots, nullptr, nullptr, MatchedSide::kNone, false));
    while (!open.empty()) {
      Level& level = open.back();
      if (level.next == level.items.size()) {
        open.pop_back();
        continue;
      }
      const Item& item = level.items[level.next++];
      if (item.before == nullptr || item.after == nullptr) {
        const Frame& alone = item.before == nullptr ? *item.after : *item.before;
        Difference& found =
            add(item.before == nullptr ? Difference::Kind::appeared : Difference::Kind::vanished,
                alone, item.path, level.inside_emulated);
        found.frames = item.frames;
        const std::set<std::string>& reached = item.reaches.empty() ? item.ops : item.reaches;
        found.reaches.assign(reached.begin(), reached.end());
        continue;
      }
      compare_step(item, level);
      const bool inside_emulated =
          level.inside_emulated || hides_its_inside(*item.before, *item.after);
      open.push_back(level_of(item.before->children, item.after->children, item.before, item.after,
                              item.path, inside_emulated));
    }
    result_.passed_over_first = passed_over_[0].size();
    result_.passed_over_second = passed_over_[1].size();
    return std::move(result_);
  }

 private:
  struct PathNode {
    std::uint32_t parent;
    const Frame* frame;
  };
  struct Item {
    // One of the two is null if only one report has the step.
    const Frame* before = nullptr;
    const Frame* after = nullptr;
    std::uint32_t path = MatchedSide::kNone;
    bool balanced = false;
    std::size_t frames = 0;
    std::set<std::string> reaches;
    std::set<std::string> ops;
  };
  struct Level {
    std::vector<Item> items;
    std::size_t next = 0;
    const Frame* first = nullptr;  // The frame above in the first report; null for the roots.
    const Frame* second = nullptr;
    bool inside_emulated = false;
  };

  /// Returns true if only one of the two is emulated and has no frames below. The real library
  /// launches its own kernels.
  static bool hides_its_inside(const Frame& before, const Frame& after) {
    const bool emulated_before = before.detail->emulated;
    return emulated_before != after.detail->emulated &&
           (emulated_before ? before : after).children.empty();
  }

  std::uint32_t path_to(std::uint32_t parent, const Frame& frame) {
    paths_.push_back({parent, &frame});
    return static_cast<std::uint32_t>(paths_.size() - 1);
  }

  Level level_of(const std::vector<Frame>& first, const std::vector<Frame>& second,
                 const Frame* above_first, const Frame* above_second, std::uint32_t path,
                 bool inside_emulated) {
    const MatchedFrames found =
        matcher_.match(first, second, above_first == nullptr ? 1 : above_first->calls,
                       above_second == nullptr ? 1 : above_second->calls);
    // Items that only the second report has come after the step of the first that they follow.
    std::unordered_map<std::uint32_t, std::vector<Item>> following;
    walk(found, 1, path, [&](std::uint32_t after, std::uint32_t, Item item) {
      if (item.before != nullptr) return;  // Added by the walk of the first side.
      following[after].push_back(std::move(item));
    });
    Level level;
    level.first = above_first;
    level.second = above_second;
    level.inside_emulated = inside_emulated;
    const auto take_following = [&](std::uint32_t after) {
      const auto items = following.find(after);
      if (items == following.end()) return;
      std::ranges::move(items->second, std::back_inserter(level.items));
      following.erase(items);
    };
    take_following(MatchedSide::kNone);
    walk(found, 0, path, [&](std::uint32_t, std::uint32_t entry, Item item) {
      level.items.push_back(std::move(item));
      take_following(entry);
    });
    // Add the steps of the second report that share a match.
    for (const auto& [match, entry_of_second] : shared_matches(found.second)) {
      Item item;
      item.before = found.first.entries[match].frame;
      item.after = found.second.entries[entry_of_second].frame;
      item.path = path_to(path, *item.before);
      item.balanced = true;
      level.items.push_back(std::move(item));
    }
    for (auto& [after, items] : following)
      std::ranges::move(items, std::back_inserter(level.items));
    return level;
  }

  /// Returns (entry of the first, entry of the second that shares it) for each shared match.
  static std::vector<std::pair<std::uint32_t, std::uint32_t>> shared_matches(
      const MatchedSide& second) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
    for (std::uint32_t i = 0; i < second.entries.size(); ++i)
      if (second.entries[i].shared && !second.entries[i].dropped)
        found.emplace_back(second.entries[i].match, i);
    return found;
  }

  /// Calls `take(last matched entry of the first, own entry, item)` for each item of a side, 0 or
  /// 1, in the order of its tree.
  template <typename Take>
  void walk(const MatchedFrames& found, std::size_t which, std::uint32_t path, Take take) {
    const MatchedSide& side = which == 0 ? found.first : found.second;
    const MatchedSide& other = which == 0 ? found.second : found.first;
    struct Visit {
      std::uint32_t entry;
      std::uint32_t path;
      std::uint32_t owner;  // The item that includes this entry, or MatchedSide::kNone.
    };
    struct Made {
      Item item;
      std::uint32_t after;
      std::uint32_t entry;
    };
    std::vector<Made> made;
    std::vector<Visit> pending;
    for (std::uint32_t i = side.direct; i-- > 0;) pending.push_back({i, path, MatchedSide::kNone});
    std::uint32_t last = MatchedSide::kNone;
    while (!pending.empty()) {
      const Visit visit = pending.back();
      pending.pop_back();
      const MatchedSide::Entry& entry = side.entries[visit.entry];
      if (entry.dropped) continue;
      const Frame& frame = *entry.frame;
      if (entry.match != MatchedSide::kNone) {
        last = which == 0 ? visit.entry : entry.match;
        if (entry.shared && which == 1) continue;
        Item item;
        item.before = which == 0 ? &frame : other.entries[entry.match].frame;
        item.after = which == 0 ? other.entries[entry.match].frame : &frame;
        if (which == 0) item.path = path_to(visit.path, frame);
        item.balanced = found.balanced.contains(entry.key);
        made.push_back({std::move(item), last, visit.entry});
        continue;
      }
      const std::uint32_t own_path = path_to(visit.path, frame);
      std::uint32_t owner = visit.owner;
      if (!steps_.is_step(frame)) {
        if (!is_wrapper(frame)) passed_over_[which].insert(entry.key);
      } else {
        if (owner == MatchedSide::kNone) {
          owner = static_cast<std::uint32_t>(made.size());
          Item item;
          (which == 0 ? item.before : item.after) = &frame;
          item.path = own_path;
          made.push_back({std::move(item), last, visit.entry});
        } else if (is_work(frame) || is_dispatched(frame)) {
          constexpr std::size_t kMax = 20;
          Item& teller = made[owner].item;
          std::set<std::string>& names = is_work(frame) ? teller.reaches : teller.ops;
          if (names.size() < kMax) names.insert(step_name(frame));
        }
        ++made[owner].item.frames;
      }
      for (std::uint32_t i = entry.behind; i-- > 0;)
        pending.push_back({entry.first_behind + i, own_path, owner});
    }
    for (Made& one : made) take(one.after, one.entry, std::move(one.item));
  }

  static bool is_worth_showing(const Frame& frame) {
    return is_dispatched(frame) || (frame.layer == Layer::python && !is_module_call(frame.name));
  }

  Difference& add(Difference::Kind kind, const Frame& frame, std::uint32_t path, bool not_known) {
    Difference& found = (not_known ? result_.not_known : result_.differences).emplace_back();
    found.kind = kind;
    found.frame = &frame;
    found.layer = frame.layer;
    constexpr std::size_t kMaxDepth = 1000;  // The beginning of a longer path is left out.
    const std::string* previous_op = nullptr;
    for (std::uint32_t at = path; at != MatchedSide::kNone && found.path.size() < kMaxDepth;
         at = paths_[at].parent) {
      const Frame& above = *paths_[at].frame;
      const std::string* const op = dispatched_op(above);
      found.path.push_back(step_name(above));
      if (at != path && is_worth_showing(above) &&
          (op == nullptr || previous_op == nullptr || *op != *previous_op))
        found.stack.push_back(step_name(above));
      // Call and redispatch of one op are shown as one step.
      if (op != nullptr) previous_op = op;
    }
    std::ranges::reverse(found.path);
    std::ranges::reverse(found.stack);
    return found;
  }

  void changed(const Item& item, const Level& level, const char* what, std::string before,
               std::string after, bool not_known = false) {
    if (before == after) return;
    Difference& found =
        add(Difference::Kind::changed, *item.before, item.path, not_known || level.inside_emulated);
    found.what = what;
    found.before = std::move(before);
    found.after = std::move(after);
  }

  // Of a frame whose calls have not all a value, the others may have returned the same.
  void compare_returned(const Item& item, const Level& level) {
    const DecidedValues before = decided_values(*item.before->detail, item.before->calls);
    const DecidedValues after = decided_values(*item.after->detail, item.after->calls);
    if (before.values.empty() || after.values.empty()) return;
    const auto is_of_other = [&](const std::string& value) { return after.values.contains(value); };
    if (!(before.of_all_calls && after.of_all_calls) &&
        std::ranges::any_of(before.values, is_of_other))
      return;
    changed(item, level, "returned", joined(before.values, ", "), joined(after.values, ", "));
  }

  void compare_step(const Item& item, const Level& level) {
    const Frame& before = *item.before;
    const Frame& after = *item.after;
    compare_returned(item, level);
    if (!steps_.is_step(before)) return;
    const bool other_key =
        before.detail->dispatch->choice.dispatch_key != after.detail->dispatch->choice.dispatch_key;
    for (const Decision& decision : kDecisions) {
      if (std::string_view(decision.what) == "kernel" && other_key)
        continue;  // Another key has another kernel.
      changed(item, level, decision.what, without_places(decision.of(*before.detail)),
              without_places(decision.of(*after.detail)));
    }
    changed(item, level, "library", library_of(before), library_of(after));
    if (keys_.key_of(before) != keys_.key_of(after)) {
      // A function with the same name in another place was moved by the build; this is not a
      // difference.
      if (last_part(short_name(before.name)) != last_part(short_name(after.name)))
        changed(item, level, "function", short_name(before.name), short_name(after.name));
    } else if (before.layer == Layer::device && result_.same_build) {
      changed(item, level, "template", before.name, after.name);
    }
    if (before.layer == Layer::device || before.layer == Layer::library) {
      const CallDifference calls = compare_calls(before, after);
      changed(item, level, "calls", calls.before, calls.after);
      changed(item, level, "calls", calls.not_known_before, calls.not_known_after, true);
    }
    if (item.balanced) return;
    if (before.calls == after.calls || is_uncertain(before, after)) return;
    if (level.first != nullptr && !is_uncertain(*level.first, *level.second)) {
      // Report a count only if the count of the frame above does not explain it.
      const auto product = [](std::uint64_t one, std::uint64_t other) {
        return static_cast<double>(one) * static_cast<double>(other);
      };
      if (product(before.calls, level.second->calls) == product(after.calls, level.first->calls))
        return;
    }
    // A pool may share the same work among fewer threads.
    if (level.first == nullptr && before.layer == Layer::python && ops_below(before) != 0 &&
        ops_below(before) == ops_below(after))
      return;
    Difference& found = add(Difference::Kind::count, before, item.path, level.inside_emulated);
    found.before = std::to_string(before.calls);
    found.after = std::to_string(after.calls);
  }

  /// Returns true if the numbers of calls may be equal, although frames have different ones: of a
  /// function without a probe, and of a Python function of which not all calls led to something.
  bool is_uncertain(const Frame& before, const Frame& after) const {
    if (before.detail->calls_at_least || after.detail->calls_at_least) return true;
    if (before.layer != Layer::python || before.name != after.name) return false;
    const auto has_others = [&](const Report& report) {
      return report.python_calls && report.python_calls->contains(before.name);
    };
    if (!has_others(first_) && !has_others(second_)) return false;
    const auto first = totals_[0].find(before.name), second = totals_[1].find(before.name);
    return first != totals_[0].end() && second != totals_[1].end() &&
           first->second == second->second;
  }

  const Report& first_;
  const Report& second_;
  StepKeys keys_;
  StepFilter steps_;
  FrameMatcher matcher_;
  std::vector<PathNode> paths_;
  std::array<CallsByName, 2> totals_;  ///< Of Python functions.
  std::array<std::set<std::uint64_t>, 2> passed_over_;
  Comparison result_;
};

}  // namespace

bool is_same_build(const Report& first, const Report& second) {
  return first.torch.git_version == second.torch.git_version &&
         first.torch.version == second.torch.version;
}

Comparison compare(const Report& first, const Report& second, const CompareOptions& options) {
  Comparison comparison = Comparer(first, second, options).run();
  comparison.fused_lines = fused_line_changes(first, second);
  return comparison;
}

}  // namespace optrace
