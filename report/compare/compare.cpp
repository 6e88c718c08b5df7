#include "report/compare/compare.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "platform/glob.h"
#include "platform/json_writer.h"
#include "platform/printable_text.h"
#include "report/compare/call_difference.h"
#include "report/model/json_fields.h"
#include "report/model/layers.h"
#include "report/model/shortfalls.h"
#include "report/model/symbol_name.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// The keys of detail that record decisions. Tensor sizes and counts are not decisions.
constexpr auto kDecisions = std::to_array<const char*>(
    {"dispatch_key", "kernel", "dispatch", "cpu_capability", "implementation"});

// Library functions that only lead to others: C++ wrappers of libraries, and functions that launch
// kernels, whose names change between releases of CUDA.
constexpr auto kWaysToLibraries =
    std::to_array<std::string_view>({"ideep::*", "cudnn_frontend::*", "cudaLaunch*",
                                     "__cudaLaunch*", "cuLaunch*", "__cudaPushCallConfiguration"});

// The frames above every module's forward().
constexpr std::string_view kModuleCalls = "torch.nn.modules.module.Module._*call_impl";

// Names that are ambiguous without their class.
constexpr auto kBareNames =
    std::to_array<std::string_view>({"impl", "apply", "operator()", "forward", "call"});

std::string_view last_part(std::string_view name) {
  for (std::size_t at = name.size(); at-- > 0;)
    if (name[at] == ':' || name[at] == '.') return name.substr(at + 1);
  return name;
}

/// Returns true for torchgen's functions between the dispatcher and a kernel: `wrapper_CPU__add`.
/// Their presence depends on inlining, and the dispatcher's frame has the same information.
bool is_wrapper(const Frame& frame) {
  return frame.layer == Layer::kernel && last_part(frame.name).starts_with("wrapper_");
}

bool is_dispatched(const Frame& frame) {
  return frame.op && frame.layer == Layer::dispatcher;
}

std::string shown(const Frame& frame) {
  return is_dispatched(frame) ? *frame.op : short_name(frame.name);
}

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
  if (std::string name = text_at(frame.detail, "library"); !name.empty()) return name;
  const std::string file = frame.library.value_or("");
  return file.substr(0, file.find(".so"));
}

bool has_flag(const Frame& frame, const char* key) {
  return frame.detail.is_object() && frame.detail.value(key, Json()) == true;
}

/// Returns true if two reports are of the same build of PyTorch, in which the same code is inlined.
bool is_same_build(const Report& first, const Report& second) {
  for (const char* const key : {"git_version", "version"})
    if (text_at(first.torch, key) != text_at(second.torch, key)) return false;
  return true;
}

std::size_t count_emulated_reads(const Report& report) {
  if (report.dry_run.is_null()) return 0;
  std::size_t count = 0;
  std::vector<const std::vector<Frame>*> pending{&report.roots};
  while (!pending.empty()) {
    const std::vector<Frame>* const frames = pending.back();
    pending.pop_back();
    for (const Frame& frame : *frames) {
      if (has_flag(frame, "reads_device_memory")) ++count;
      pending.push_back(&frame.children);
    }
  }
  return count;
}

/// Numbers names. Names that differ only in template arguments have the same number.
class Names {
 public:
  /// Returns equal keys for frames that are the same step: same layer, and same op or name.
  std::uint64_t key_of(const Frame& frame) {
    const bool dispatched = is_dispatched(frame);
    const std::uint64_t number = dispatched ? number_of(*frame.op) : short_number_of(frame.name);
    const bool redispatch = dispatched && text_at(frame.detail, "step") == "redispatch";
    return number << 8U | static_cast<std::uint64_t>(frame.layer) << 1U | (redispatch ? 1U : 0U);
  }

 private:
  std::uint64_t number_of(std::string_view name) {
    return numbers_.try_emplace(std::string(name), numbers_.size()).first->second;
  }
  std::uint64_t short_number_of(const std::string& name) {
    const auto known = short_numbers_.find(name);
    if (known != short_numbers_.end()) return known->second;
    return short_numbers_[name] = number_of(short_name(name));
  }

  std::unordered_map<std::string, std::uint64_t> numbers_;
  // The keys are views into the reports.
  std::unordered_map<std::string_view, std::uint64_t> short_numbers_;
};

/// Returns true for a device kernel, and for a call that makes a library work.
bool is_work(const Frame& frame) {
  if (frame.layer == Layer::device) return true;
  return frame.layer == Layer::library && !is_library_bookkeeping(frame.name) &&
         std::ranges::none_of(kWaysToLibraries, [&](std::string_view pattern) {
           return matches_name_glob(frame.name, pattern);
         });
}

/// Selects the frames that are compared. All others only lead to them.
class Steps {
 public:
  explicit Steps(bool everything) : everything_(everything) {}

  bool is_step(const Frame& frame) const {
    if (is_wrapper(frame)) return false;
    if (everything_) return true;
    switch (frame.layer) {
      case Layer::python:  // Named functions of the program itself.
        return !frame.name.starts_with("torch.") && !last_part(frame.name).starts_with('<');
      case Layer::dispatcher:
      case Layer::kernel:
        return frame.op.has_value();
      case Layer::autograd:  // Functions that only pass ops on differ by version.
        return frame.name.ends_with("::apply") ||
               (frame.op.has_value() && frame.name.find("ADInplaceOrView::") == std::string::npos);
      case Layer::library:
        return is_work(frame);
      case Layer::device:
        return true;
      case Layer::binding:
      case Layer::runtime:
        return false;
    }
    return false;
  }

 private:
  bool everything_;
};

/// The children of one frame, and the frames found below children without a match.
struct Side {
  struct Entry {
    const Frame* frame = nullptr;
    std::uint64_t key = 0;
    std::uint32_t parent = kNone;        // The unmatched entry above, if any.
    std::uint32_t first_behind = kNone;  // Its children's first entry; they are consecutive.
    std::uint32_t behind = 0;
    std::uint32_t match = kNone;  // Index of an entry of the other side.
    bool matches_behind = false;  // An entry below has a match.
    bool dropped = false;         // Ignored: an entry above was matched later.
    bool shared = false;          // The matching entry has another match, too.
  };
  std::vector<Entry> entries;
  std::uint32_t direct = 0;  // Number of the frame's own children, which come first.
};

/// Matches the children of two frames.
class Matcher {
 public:
  Matcher(Names& names, const Steps& steps, bool same_build)
      : names_(names), steps_(steps), same_build_(same_build) {}

  struct Result {
    Side first, second;
    std::set<std::uint64_t> balanced;  // Keys with as many calls on both sides, split differently.
  };

  Result match(const std::vector<Frame>& first, const std::vector<Frame>& second,
               std::uint64_t calls_first, std::uint64_t calls_second) {
    Result result;
    Side& a = result.first;
    Side& b = result.second;
    std::vector<std::uint32_t> open_a = start(a, first);
    std::vector<std::uint32_t> open_b = start(b, second);
    pair_by(a, open_a, b, open_b, [this](const Frame& frame, std::uint64_t key) {
      return frame.layer == Layer::device ? fmt::format("{} {}", key, frame.name)
                                          : fmt::format("{}", key);
    });
    pair_by(a, open_a, b, open_b,
            [](const Frame&, std::uint64_t key) { return fmt::format("{}", key); });
    if (!same_build_) pair_moved(a, open_a, b, open_b);
    pair_renamed(a, open_a, b, open_b);
    match_behind(a, std::move(open_a), b, std::move(open_b));
    share(result, calls_first, calls_second);
    return result;
  }

 private:
  /// Adds `frames`, and the frames below wrappers. Returns the entries that are not wrappers.
  std::vector<std::uint32_t> add(Side& side, const std::vector<Frame>& frames,
                                 std::uint32_t parent) {
    std::vector<std::uint32_t> added;
    std::deque<std::pair<const std::vector<Frame>*, std::uint32_t>> pending{{&frames, parent}};
    while (!pending.empty()) {
      const auto [list, above] = pending.front();
      pending.pop_front();
      const auto begin = static_cast<std::uint32_t>(side.entries.size());
      if (above != kNone) {
        side.entries[above].first_behind = begin;
        side.entries[above].behind = static_cast<std::uint32_t>(list->size());
      }
      for (const Frame& frame : *list)
        side.entries.push_back({.frame = &frame, .key = names_.key_of(frame), .parent = above});
      for (std::uint32_t i = begin; i < side.entries.size(); ++i) {
        const Frame& frame = *side.entries[i].frame;
        if (is_wrapper(frame))
          pending.emplace_back(&frame.children, i);
        else
          added.push_back(i);
      }
    }
    return added;
  }

  std::vector<std::uint32_t> start(Side& side, const std::vector<Frame>& frames) {
    side.direct = static_cast<std::uint32_t>(frames.size());
    return add(side, frames, kNone);
  }

  static void note_match_behind(Side& side, std::uint32_t entry) {
    for (std::uint32_t above = side.entries[entry].parent;
         above != kNone && !side.entries[above].matches_behind; above = side.entries[above].parent)
      side.entries[above].matches_behind = true;
  }

  static void drop_behind(Side& side, std::uint32_t entry) {
    std::vector<std::uint32_t> pending{entry};
    while (!pending.empty()) {
      const Side::Entry& above = side.entries[pending.back()];
      pending.pop_back();
      for (std::uint32_t i = 0; i < above.behind; ++i) {
        if (side.entries[above.first_behind + i].dropped) continue;
        side.entries[above.first_behind + i].dropped = true;
        pending.push_back(above.first_behind + i);
      }
    }
  }

  static void pair(Side& a, std::uint32_t of_a, Side& b, std::uint32_t of_b) {
    a.entries[of_a].match = of_b;
    b.entries[of_b].match = of_a;
    note_match_behind(a, of_a);
    note_match_behind(b, of_b);
    drop_behind(a, of_a);
    drop_behind(b, of_b);
  }

  static void keep_open(const Side& side, std::vector<std::uint32_t>& open) {
    std::erase_if(open, [&](std::uint32_t entry) { return side.entries[entry].match != kNone; });
  }

  /// Pairs entries with equal results of `name_of`, in their order.
  template <typename NameOf>
  static void pair_by(Side& a, std::vector<std::uint32_t>& open_a, Side& b,
                      std::vector<std::uint32_t>& open_b, NameOf name_of) {
    if (open_a.empty() || open_b.empty()) return;
    std::unordered_map<std::string, std::deque<std::uint32_t>> waiting;
    for (const std::uint32_t entry : open_b)
      waiting[name_of(*b.entries[entry].frame, b.entries[entry].key)].push_back(entry);
    for (const std::uint32_t entry : open_a) {
      const auto alike = waiting.find(name_of(*a.entries[entry].frame, a.entries[entry].key));
      if (alike == waiting.end() || alike->second.empty()) continue;
      pair(a, entry, b, alike->second.front());
      alike->second.pop_front();
    }
    keep_open(a, open_a);
    keep_open(b, open_b);
  }

  /// Pairs the entries of each group that `group_of` makes, if both sides have the same number of
  /// them, and no more than `most`. An empty string means no group.
  template <typename GroupOf>
  static void pair_groups(Side& a, std::vector<std::uint32_t>& open_a, Side& b,
                          std::vector<std::uint32_t>& open_b, std::size_t most, GroupOf group_of) {
    if (open_a.empty() || open_b.empty()) return;
    std::unordered_map<std::string, std::array<std::vector<std::uint32_t>, 2>> groups;
    for (const std::uint32_t entry : open_a)
      groups[group_of(*a.entries[entry].frame)][0].push_back(entry);
    for (const std::uint32_t entry : open_b)
      groups[group_of(*b.entries[entry].frame)][1].push_back(entry);
    for (const auto& [group, members] : groups) {
      if (group.empty() || members[0].size() != members[1].size() || members[0].size() > most)
        continue;
      for (std::size_t i = 0; i < members[0].size(); ++i) pair(a, members[0][i], b, members[1][i]);
    }
    keep_open(a, open_a);
    keep_open(b, open_b);
  }

  /// Pairs functions that kept their name and moved to another namespace, class or module.
  static void pair_moved(Side& a, std::vector<std::uint32_t>& open_a, Side& b,
                         std::vector<std::uint32_t>& open_b) {
    pair_groups(a, open_a, b, open_b, 1, [](const Frame& frame) -> std::string {
      const std::string name = short_name(frame.name);
      const std::string_view part = last_part(name);
      if (is_dispatched(frame) || std::ranges::find(kBareNames, part) != kBareNames.end())
        return {};
      return fmt::format("{} {}", static_cast<int>(frame.layer), part);
    });
  }

  /// Pairs the kernels of an op, and the device kernels that a call launched, if they are different
  /// functions: one has replaced the other.
  static void pair_renamed(Side& a, std::vector<std::uint32_t>& open_a, Side& b,
                           std::vector<std::uint32_t>& open_b) {
    constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();
    pair_groups(a, open_a, b, open_b, kAnyNumber, [](const Frame& frame) -> std::string {
      if (frame.layer == Layer::device) return "device";
      if (frame.layer == Layer::kernel && frame.op) return fmt::format("kernel {}", *frame.op);
      return {};
    });
  }

  using Waiting = std::unordered_map<std::uint64_t, std::deque<std::uint32_t>>;

  /// Returns the next entry of `waiting` that can still be paired.
  static std::uint32_t next_of(Waiting& waiting, std::uint64_t key, const Side& side) {
    const auto alike = waiting.find(key);
    if (alike == waiting.end()) return kNone;
    while (!alike->second.empty()) {
      const std::uint32_t entry = alike->second.front();
      alike->second.pop_front();
      const Side::Entry& found = side.entries[entry];
      if (!found.dropped && !found.matches_behind && found.match == kNone) return entry;
    }
    return kNone;
  }

  /// Searches below entries without a match, level by level, for entries that have one.
  void match_behind(Side& a, std::vector<std::uint32_t> open_a, Side& b,
                    std::vector<std::uint32_t> open_b) {
    Waiting waiting_a, waiting_b;
    for (const std::uint32_t entry : open_a) waiting_a[a.entries[entry].key].push_back(entry);
    for (const std::uint32_t entry : open_b) waiting_b[b.entries[entry].key].push_back(entry);
    const auto look_behind = [this](Side& side, std::vector<std::uint32_t>& open) {
      std::vector<std::uint32_t> found;
      for (const std::uint32_t entry : open) {
        if (side.entries[entry].match != kNone || side.entries[entry].dropped) continue;
        const std::vector<std::uint32_t> behind =
            add(side, side.entries[entry].frame->children, entry);
        found.insert(found.end(), behind.begin(), behind.end());
      }
      open = std::move(found);
    };
    while (!open_a.empty() || !open_b.empty()) {
      look_behind(a, open_a);
      for (const std::uint32_t entry : open_a) {
        const std::uint64_t key = a.entries[entry].key;
        if (const std::uint32_t match = next_of(waiting_b, key, b); match != kNone)
          pair(a, entry, b, match);
        else
          waiting_a[key].push_back(entry);
      }
      look_behind(b, open_b);
      for (const std::uint32_t entry : open_b) {
        if (b.entries[entry].dropped) continue;
        const std::uint64_t key = b.entries[entry].key;
        if (const std::uint32_t match = next_of(waiting_a, key, a); match != kNone)
          pair(a, match, b, entry);
        else
          waiting_b[key].push_back(entry);
      }
    }
  }

  /// Pairs entries that one side has in several paths and the other in fewer, with as many calls in
  /// total: a function in between was inlined on one side only.
  static void share(Result& result, std::uint64_t calls_first, std::uint64_t calls_second) {
    struct Total {
      double calls[2] = {0, 0};
      std::uint32_t last_fellow[2] = {kNone, kNone};  // The last matched entry of each side.
      bool left[2] = {false, false};
    };
    std::unordered_map<std::uint64_t, Total> totals;
    Side* const sides[2] = {&result.first, &result.second};
    bool anything_left = false;
    for (std::size_t s = 0; s < 2; ++s) {
      for (std::uint32_t i = 0; i < sides[s]->entries.size(); ++i) {
        const Side::Entry& entry = sides[s]->entries[i];
        if (entry.dropped) continue;
        Total& total = totals[entry.key];
        total.calls[s] += static_cast<double>(entry.frame->calls);
        if (entry.match != kNone) total.last_fellow[s] = i;
        total.left[s] = total.left[s] || entry.match == kNone;
        anything_left = anything_left || entry.match == kNone;
      }
    }
    if (!anything_left) return;
    const auto times = [](std::uint64_t calls) { return static_cast<double>(calls); };
    for (std::size_t s = 0; s < 2; ++s) {
      for (Side::Entry& entry : sides[s]->entries) {
        if (entry.dropped || entry.match != kNone || entry.matches_behind) continue;
        const Total& total = totals[entry.key];
        if (total.left[1 - s] || total.last_fellow[1 - s] == kNone ||
            total.calls[0] * times(calls_second) != total.calls[1] * times(calls_first))
          continue;
        entry.match = total.last_fellow[1 - s];
        entry.shared = true;
        result.balanced.insert(entry.key);
      }
    }
    for (Side* const side : sides)
      for (std::uint32_t i = 0; i < side->entries.size(); ++i)
        if (side->entries[i].shared) drop_behind(*side, i);
  }

  Names& names_;
  const Steps& steps_;
  bool same_build_;
};

class Comparer {
 public:
  Comparer(const Report& first, const Report& second, const CompareOptions& options)
      : first_(first),
        second_(second),
        steps_(options.all || is_same_build(first, second)),
        matcher_(names_, steps_, is_same_build(first, second)) {
    result_.same_build = is_same_build(first, second);
    result_.conclusive =
        !may_hide_differences(first.shortfalls) && !may_hide_differences(second.shortfalls);
    result_.emulated_reads = count_emulated_reads(first) + count_emulated_reads(second);
  }

  Comparison run() {
    std::vector<Level> open;
    open.push_back(level_of(first_.roots, second_.roots, nullptr, nullptr, kNone, false));
    while (!open.empty()) {
      Level& level = open.back();
      if (level.next == level.items.size()) {
        open.pop_back();
        continue;
      }
      Item& item = level.items[level.next++];
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
      hold_against(item, level);
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
    std::uint32_t path = kNone;
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
    const bool emulated_before = has_flag(before, "emulated");
    const bool emulated_after = has_flag(after, "emulated");
    return emulated_before != emulated_after && (emulated_before ? before : after).children.empty();
  }

  std::uint32_t path_to(std::uint32_t parent, const Frame& frame) {
    paths_.push_back({parent, &frame});
    return static_cast<std::uint32_t>(paths_.size() - 1);
  }

  Level level_of(const std::vector<Frame>& first, const std::vector<Frame>& second,
                 const Frame* above_first, const Frame* above_second, std::uint32_t path,
                 bool inside_emulated) {
    const Matcher::Result found =
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
    take_following(kNone);
    walk(found, 0, path, [&](std::uint32_t, std::uint32_t entry, Item item) {
      level.items.push_back(std::move(item));
      take_following(entry);
    });
    // Add the steps of the second report that share a match.
    for (const auto& [match, fellow_of_second] : shared_fellows(found.second)) {
      Item item;
      item.before = found.first.entries[match].frame;
      item.after = found.second.entries[fellow_of_second].frame;
      item.path = path_to(path, *item.before);
      item.balanced = true;
      level.items.push_back(std::move(item));
    }
    for (auto& [after, items] : following)
      std::ranges::move(items, std::back_inserter(level.items));
    return level;
  }

  /// Returns (entry of the first, entry of the second that shares it) for each shared match.
  static std::vector<std::pair<std::uint32_t, std::uint32_t>> shared_fellows(const Side& second) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;
    for (std::uint32_t i = 0; i < second.entries.size(); ++i)
      if (second.entries[i].shared && !second.entries[i].dropped)
        found.emplace_back(second.entries[i].match, i);
    return found;
  }

  /// Calls `take(last matched entry of the first, own entry, item)` for each item of a side, 0 or
  /// 1, in the order of its tree.
  template <typename Take>
  void walk(const Matcher::Result& found, std::size_t which, std::uint32_t path, Take take) {
    const Side& side = which == 0 ? found.first : found.second;
    const Side& other = which == 0 ? found.second : found.first;
    struct Visit {
      std::uint32_t entry;
      std::uint32_t path;
      std::uint32_t owner;  // The item that includes this entry; kNone if there is none.
    };
    struct Made {
      Item item;
      std::uint32_t after;
      std::uint32_t entry;
    };
    std::vector<Made> made;
    std::vector<Visit> pending;
    for (std::uint32_t i = side.direct; i-- > 0;) pending.push_back({i, path, kNone});
    std::uint32_t last = kNone;
    while (!pending.empty()) {
      const Visit visit = pending.back();
      pending.pop_back();
      const Side::Entry& entry = side.entries[visit.entry];
      if (entry.dropped) continue;
      const Frame& frame = *entry.frame;
      if (entry.match != kNone) {
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
        if (owner == kNone) {
          owner = static_cast<std::uint32_t>(made.size());
          Item item;
          (which == 0 ? item.before : item.after) = &frame;
          item.path = own_path;
          made.push_back({std::move(item), last, visit.entry});
        } else if (is_work(frame) || is_dispatched(frame)) {
          constexpr std::size_t kMost = 20;
          Item& teller = made[owner].item;
          std::set<std::string>& names = is_work(frame) ? teller.reaches : teller.ops;
          if (names.size() < kMost) names.insert(shown(frame));
        }
        ++made[owner].item.frames;
      }
      for (std::uint32_t i = entry.behind; i-- > 0;)
        pending.push_back({entry.first_behind + i, own_path, owner});
    }
    for (Made& one : made) take(one.after, one.entry, std::move(one.item));
  }

  static bool is_worth_showing(const Frame& frame) {
    return is_dispatched(frame) ||
           (frame.layer == Layer::python && !matches_name_glob(frame.name, kModuleCalls));
  }

  Difference& add(Difference::Kind kind, const Frame& frame, std::uint32_t path, bool not_known) {
    Difference& found = (not_known ? result_.not_known : result_.differences).emplace_back();
    found.kind = kind;
    found.layer = frame.layer;
    constexpr std::size_t kDeepest = 1000;  // The beginning of a longer path is left out.
    const std::string* previous_op = nullptr;
    for (std::uint32_t at = path; at != kNone && found.path.size() < kDeepest;
         at = paths_[at].parent) {
      const Frame& above = *paths_[at].frame;
      found.path.push_back(shown(above));
      if (at != path && is_worth_showing(above) &&
          !(is_dispatched(above) && previous_op != nullptr && *above.op == *previous_op))
        found.way.push_back(shown(above));
      // Call and redispatch of one op are shown as one step.
      if (is_dispatched(above)) previous_op = &*above.op;
    }
    std::ranges::reverse(found.path);
    std::ranges::reverse(found.way);
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

  void hold_against(const Item& item, const Level& level) {
    const Frame& before = *item.before;
    const Frame& after = *item.after;
    if (!steps_.is_step(before)) return;
    const bool other_key =
        text_at(before.detail, "dispatch_key") != text_at(after.detail, "dispatch_key");
    for (const std::string_view key : kDecisions) {
      if (key == "kernel" && other_key) continue;  // Another key has another kernel.
      changed(item, level, key.data(), without_places(text_at(before.detail, key.data())),
              without_places(text_at(after.detail, key.data())));
    }
    changed(item, level, "library", library_of(before), library_of(after));
    if (names_.key_of(before) != names_.key_of(after)) {
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
    // Report a count only if the count of the frame above does not explain it.
    const std::uint64_t times_before = level.first == nullptr ? 1 : level.first->calls;
    const std::uint64_t times_after = level.second == nullptr ? 1 : level.second->calls;
    const bool same = static_cast<double>(before.calls) * static_cast<double>(times_after) ==
                      static_cast<double>(after.calls) * static_cast<double>(times_before);
    if (same || before.calls == after.calls) return;
    Difference& found = add(Difference::Kind::count, before, item.path, level.inside_emulated);
    found.before = std::to_string(before.calls);
    found.after = std::to_string(after.calls);
  }

  const Report& first_;
  const Report& second_;
  Names names_;
  Steps steps_;
  Matcher matcher_;
  std::vector<PathNode> paths_;
  std::array<std::set<std::uint64_t>, 2> passed_over_;
  Comparison result_;
};

constexpr std::string_view name_of(Difference::Kind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"vanished", "appeared", "changed", "count"};
  return kNames[static_cast<std::size_t>(kind)];
}

Json describe(const Report& report) {
  return {{"torch", report.torch.value("version", Json())},
          {"device", report.device},
          {"dry_run", report.dry_run},
          {"shortfalls", shortfalls_json(report.shortfalls)}};
}

std::string describe_shortly(const Report& report, const std::string& label) {
  std::string text = fmt::format("torch {} on {}", text_at(report.torch, "version"), report.device);
  if (report.dry_run.is_object())
    text += fmt::format(", dry run ({})", text_at(report.dry_run, "arch"));
  return label.empty() ? text : fmt::format("{}: {}", label, text);
}

/// Returns a line for each shortfall of the report.
std::string lacks(const Report& report) {
  std::string text;
  for (const Shortfall& shortfall : report.shortfalls)
    text += fmt::format("{:10}incomplete: {}\n", "", sentence_of(shortfall));
  return text;
}

std::string outcome(const Comparison& comparison) {
  const std::size_t differences = comparison.differences.size();
  std::string text = differences == 0
                         ? "No difference"
                         : fmt::format("{} difference{}", differences, differences == 1 ? "" : "s");
  if (comparison.conclusive) return text + (differences == 0 ? ".\n" : "\n");
  return text + (differences == 0 ? " in the recorded part. The recording is incomplete, so it is "
                                    "unknown whether the two are the same.\n"
                                  : " in the recorded part. The recording is incomplete: there may "
                                    "be more differences, and some may be due to missing data.\n");
}

std::string shown_value(const std::string& text) {
  constexpr std::size_t kLongest = 160;
  return text.empty() ? std::string("none") : shorten_middle(printable(text), kLongest);
}

/// Describes a changed decision, without its place.
std::string decision(const Difference& difference) {
  return fmt::format("{}: {} → {}", difference.what, shown_value(difference.before),
                     shown_value(difference.after));
}

/// Lists at most `most` names in one line.
std::string enumerated(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", printable(names[i]));
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

/// Describes the difference in a step, without the path to it.
std::string statement(const Difference& difference) {
  constexpr std::size_t kMaxReached = 4;
  std::string line = printable(difference.path.back());
  switch (difference.kind) {
    case Difference::Kind::changed:
      if (difference.what == "function")
        return fmt::format("{} → {}", shown_value(difference.before),
                           shown_value(difference.after));
      return fmt::format("{}  {}", line, decision(difference));
    case Difference::Kind::count:
      return fmt::format("{}  ×{} → ×{}", line, difference.before, difference.after);
    case Difference::Kind::vanished:
    case Difference::Kind::appeared:
      break;
  }
  if (difference.frames > 1) line += fmt::format(", and {} below", difference.frames - 1);
  const std::string reached = enumerated(difference.reaches, kMaxReached);
  return reached.empty() ? line : fmt::format("{}: {}", line, reached);
}

std::string way_to(const Difference& difference) {
  constexpr std::size_t kShownAbove = 5;  // JSON contains all.
  const std::size_t above = difference.way.size();
  const std::size_t first_shown = above - std::min(above, kShownAbove);
  std::string way = first_shown == 0 ? "" : "… > ";
  for (std::size_t i = first_shown; i < above; ++i)
    way += fmt::format("{}{}", i == first_shown ? "" : " > ", printable(difference.way[i]));
  return way;
}

std::string plural(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Differences shown in one line: the same difference of one step at several places, or the same
/// change of the dispatch key of several ops.
struct Group {
  const Difference* first = nullptr;
  std::vector<std::string> names;  // Names of the steps, each once.
  std::size_t places = 0;
};

std::vector<Group> grouped(const std::vector<Difference>& differences) {
  std::vector<Group> groups;
  std::unordered_map<std::string, std::size_t> known;
  for (const Difference& difference : differences) {
    const bool of_any_op = difference.what == "dispatch_key";
    const auto [at, is_new] =
        known.try_emplace(fmt::format("{} {}", static_cast<int>(difference.kind),
                                      of_any_op ? decision(difference) : statement(difference)),
                          groups.size());
    if (is_new) groups.push_back({.first = &difference, .names = {}, .places = 0});
    Group& group = groups[at->second];
    ++group.places;
    if (std::ranges::find(group.names, difference.path.back()) == group.names.end())
      group.names.push_back(difference.path.back());
  }
  return groups;
}

std::string listed(const std::vector<Difference>& differences, const TerminalStyle& style) {
  constexpr std::array<std::string_view, 4> kColours = {"31", "32", "33", "36"};
  constexpr std::size_t kColumns = 10;
  constexpr std::size_t kMaxNames = 6;
  std::string text;
  for (const Group& group : grouped(differences)) {
    const std::string_view name = name_of(group.first->kind);
    const std::string line =
        group.names.size() == 1
            ? statement(*group.first)
            : fmt::format("{}  {}", enumerated(group.names, kMaxNames), decision(*group.first));
    text += fmt::format("{}{}{}\n",
                        style.paint(name, kColours[static_cast<std::size_t>(group.first->kind)]),
                        std::string(kColumns - name.size(), ' '), line);
    std::string way = group.names.size() == 1 ? way_to(*group.first) : "";
    if (!way.empty()) way = "under " + way;
    if (group.places > 1) {
      way += way.empty() ? fmt::format("at {}", plural(group.places, "place"))
                         : fmt::format(", and at {}", plural(group.places - 1, "more place"));
    }
    if (!way.empty())
      text += fmt::format("{}{}\n", std::string(kColumns, ' '), style.paint(way, "2"));
  }
  return text;
}

Json to_json(const std::vector<Difference>& differences) {
  Json list = Json::array();
  for (const Difference& difference : differences) {
    Json one = {{"kind", name_of(difference.kind)},
                {"layer", name_of(difference.layer)},
                {"path", difference.path}};
    if (difference.kind == Difference::Kind::changed) {
      one["what"] = difference.what;
      one["before"] = difference.before;
      one["after"] = difference.after;
    } else if (difference.kind == Difference::Kind::count) {
      one["before"] = std::stoull(difference.before);
      one["after"] = std::stoull(difference.after);
    } else {
      one["frames"] = difference.frames;
      one["reaches"] = difference.reaches;
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

Comparison compare(const Report& first, const Report& second, const CompareOptions& options) {
  return Comparer(first, second, options).run();
}

std::string comparison_to_text(const Report& first, const Report& second,
                               const Comparison& comparison, const ComparisonLabels& labels,
                               const TerminalStyle& style) {
  std::string text = fmt::format("-         {}\n{}+         {}\n{}\n",
                                 printable(describe_shortly(first, labels.first)), lacks(first),
                                 printable(describe_shortly(second, labels.second)), lacks(second));
  text += listed(comparison.differences, style);
  if (!comparison.differences.empty()) text += "\n";
  if (!comparison.not_known.empty()) {
    text += "Unknown in a dry run, and not counted as differences:\n";
    text += listed(comparison.not_known, style) + "\n";
  }
  text += outcome(comparison);
  if (comparison.passed_over_first + comparison.passed_over_second > 0) {
    text += style.paint(
                fmt::format("Different builds of PyTorch: {} between the steps only in the first, "
                            "{} only in the second (inlined, moved or new); --all lists them.",
                            plural(comparison.passed_over_first, "function"),
                            comparison.passed_over_second),
                "2") +
            "\n";
  }
  if (comparison.emulated_reads > 0) {
    text +=
        style.paint(
            fmt::format(
                "The host read emulated values in {}; the calls after that may differ on a GPU.",
                plural(comparison.emulated_reads, "frame")),
            "2") +
        "\n";
  }
  return text;
}

std::string comparison_to_json(const Report& first, const Report& second,
                               const Comparison& comparison) {
  const Json json = {
      {"schema", "optrace.comparison/1"},
      {"first", describe(first)},
      {"second", describe(second)},
      {"same_build", comparison.same_build},
      {"conclusive", comparison.conclusive},
      {"passed_over",
       {{"first", comparison.passed_over_first}, {"second", comparison.passed_over_second}}},
      {"emulated_reads", comparison.emulated_reads},
      {"differences", to_json(comparison.differences)},
      {"not_known", to_json(comparison.not_known)}};
  return write_json(json, 1) + "\n";
}

}  // namespace optrace
