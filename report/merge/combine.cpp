#include "report/merge/combine.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "platform/error.h"
#include "report/model/process_names.h"
#include "report/model/shortfalls.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kNoNode = 0xFFFFFFFF;

/// Detail keys that distinguish frames of the same function.
constexpr const char* kTelling[] = {"step",           "python_name", "cpu_capability",
                                    "implementation", "tail_call",   "entered_before_recording"};

/// Indexes of reports that were added in ascending order. Consecutive ones take no more memory than
/// one.
class Takers {
 public:
  explicit Takers(std::uint32_t taker) : runs_{{taker, taker}} {}

  void add(std::uint32_t taker) {
    if (runs_.back().last == taker) return;
    ++count_;
    if (runs_.back().last + 1 == taker)
      runs_.back().last = taker;
    else
      runs_.push_back({taker, taker});
  }

  std::uint32_t count() const { return count_; }

  std::vector<std::uint32_t> list() const {
    std::vector<std::uint32_t> all;
    all.reserve(count_);
    for (const Run& run : runs_)
      for (std::uint32_t taker = run.first; taker <= run.last; ++taker) all.push_back(taker);
    return all;
  }

  bool operator==(const Takers&) const = default;

 private:
  struct Run {
    std::uint32_t first, last;  ///< [first, last]
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs_;
  std::uint32_t count_ = 1;
};

/// A frame without its children, and the reports that contain it.
struct Node {
  Frame frame;
  Takers takers;
  std::vector<std::uint32_t> children;
  std::uint32_t parent = kNoNode;
};

/// Returns the key of a frame: frames below the same parent with equal keys are combined.
std::string key_of(std::uint32_t parent, const Frame& frame) {
  const auto text = [](const std::optional<std::string>& value) { return value.value_or("\1"); };
  std::string key =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", parent, static_cast<int>(frame.layer), frame.name,
                  text(frame.symbol), text(frame.library), text(frame.op));
  if (frame.source) {
    key += fmt::format("\n{}:{}:{}", frame.source->file, frame.source->line,
                       frame.source->call_line.value_or(0));
    if (const std::optional<CallRange>& range = frame.source->call_range)
      key += fmt::format(":{}:{}:{}", range->column, range->end_line, range->end_column);
  }
  if (frame.detail.is_object()) {
    for (const char* const name : kTelling) {
      const auto found = frame.detail.find(name);
      if (found != frame.detail.end()) key += fmt::format("\n{}={}", name, found->dump());
    }
  }
  return key;
}

/// Returns the name of a frame for use in a sentence.
std::string shown(const Frame& frame) {
  return frame.op && frame.layer == Layer::dispatcher ? *frame.op : frame.name;
}

}  // namespace

class Combination::State {
 public:
  void add(Report report) {
    require_same_torch(report);
    // A report that stays the only one keeps its frames.
    if (count_ == 1) add_frames(0, std::exchange(sum_.roots, {}));
    if (count_ > 0) add_frames(count_, std::exchange(report.roots, {}));
    add_up(std::move(report));
  }

  void add_apart(Report report) {
    require_same_torch(report);
    if (count_ > 0) std::ranges::move(report.roots, std::back_inserter(sum_.roots));
    add_up(std::move(report));
  }

  Report take() {
    if (count_ < 2) return std::move(sum_);
    sum_.meta["differences"] = differences();
    sum_.roots = make_frames();
    return take_apart();
  }

  Report take_apart() {
    if (count_ > 1) sum_.processes = std::move(processes_);
    return std::move(sum_);
  }

 private:
  /// Adds all but the frames; keeps those of the first report.
  void add_up(Report report) {
    describe(report);
    if (count_++ == 0) {
      sum_ = std::move(report);
      return;
    }
    sum_.threads += report.threads;
    for (const Shortfall& shortfall : report.shortfalls) add_shortfall(sum_.shortfalls, shortfall);
    for (const auto member : kCallTreeStatistics)
      sum_.statistics.*member += report.statistics.*member;
    add_warnings(sum_.meta, report.meta);
  }

  /// Throws Error(usage) if a report's torch differs from the first's.
  void require_same_torch(const Report& report) const {
    if (count_ == 0) return;
    for (const char* const key : {"version", "git_version"}) {
      if (report.torch.value(key, Json()) == sum_.torch.value(key, Json())) continue;
      throw Error(ExitStatus::usage,
                  fmt::format("the traces are of different versions of torch: {} and {}",
                              sum_.torch.value("version", Json()).dump(),
                              report.torch.value("version", Json()).dump()),
                  "Give the traces of one job.");
    }
  }

  /// Records the rank and process id of a report.
  void describe(const Report& report) {
    Json process = Json::object();
    if (report.meta.is_object()) process = report.meta.value("process", Json::object());
    const auto number = [&process](const char* key) {
      const Json value = process.is_object() ? process.value(key, Json()) : Json();
      return value.is_number_unsigned() ? value : Json();
    };
    const Json id = number("id");
    const Json rank = number("rank");
    processes_.push_back({{"id", id}, {"rank", rank}});
    all_have_ranks_ = all_have_ranks_ && !rank.is_null();
    ranks_.push_back(rank);
    ids_.push_back(id.is_null() ? Json(count_) : id);
  }

  /// Adds a report's frames, parents first, without recursion: the tree may have any depth.
  void add_frames(std::uint32_t taker, std::vector<Frame> roots) {
    struct Level {
      std::vector<Frame> frames;
      std::size_t next;
      std::uint32_t parent;
      std::size_t place;  ///< Where to insert the next new node among the parent's children.
    };
    std::vector<Level> open;
    open.push_back({std::move(roots), 0, kNoNode, 0});
    while (!open.empty()) {
      Level& level = open.back();
      if (level.next == level.frames.size()) {
        open.pop_back();
        continue;
      }
      Frame& frame = level.frames[level.next++];
      std::vector<Frame> children = std::move(frame.children);
      frame.children.clear();
      const std::uint32_t node = add_frame(taker, std::move(frame), level.parent, level.place);
      open.push_back({std::move(children), 0, node, 0});
    }
  }

  std::uint32_t add_frame(std::uint32_t taker, Frame frame, std::uint32_t parent,
                          std::size_t& place) {
    std::vector<std::uint32_t>& siblings = parent == kNoNode ? roots_ : nodes_[parent].children;
    const auto [at, added] =
        known_.try_emplace(key_of(parent, frame), static_cast<std::uint32_t>(nodes_.size()));
    const std::uint32_t index = at->second;
    if (added) {
      siblings.insert(siblings.begin() + static_cast<std::ptrdiff_t>(place++), index);
      nodes_.push_back({std::move(frame), Takers(taker), {}, parent});
      return index;
    }
    const auto where = std::find(siblings.begin(), siblings.end(), index) - siblings.begin();
    place = std::max(place, static_cast<std::size_t>(where) + 1);
    Node& node = nodes_[index];
    node.takers.add(taker);
    node.frame.calls += frame.calls;
    return index;
  }

  static void add_warnings(Json& meta, const Json& more) {
    if (!more.is_object() || !meta.is_object()) return;
    const Json warnings = more.value("warnings", Json());
    if (!warnings.is_array()) return;
    Json& all = meta["warnings"];
    if (!all.is_array()) all = Json::array();
    for (const Json& warning : warnings) {
      if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(warning);
    }
  }

  /// Returns the ranks or process ids of the takers, as used in detail and sentences.
  Json names(const std::vector<std::uint32_t>& takers) const {
    Json names = Json::array();
    for (const std::uint32_t taker : takers) {
      names.push_back(all_have_ranks_ ? ranks_[taker] : ids_[taker]);
    }
    return names;
  }

  /// Returns a sentence for each group of processes with paths that the others did not take: the
  /// processes, and the first such frame.
  Json differences() const {
    std::map<std::vector<std::uint32_t>, std::pair<std::size_t, std::uint32_t>> groups;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.takers.count() == count_) continue;
      if (node.parent != kNoNode && nodes_[node.parent].takers == node.takers) continue;
      ++groups.try_emplace(node.takers.list(), 0, i).first->second.first;
    }
    Json sentences = Json::array();
    for (const auto& [takers, place] : groups) {
      const Node& node = nodes_[place.second];
      std::string where = shown(node.frame);
      if (node.parent != kNoNode) where += " under " + shown(nodes_[node.parent].frame);
      const std::size_t more = place.first - 1;
      sentences.push_back(fmt::format(
          "only {}{} {} took {}{}", all_have_ranks_ ? "rank" : "process",
          takers.size() == 1 ? ""
          : all_have_ranks_  ? "s"
                             : "es",
          process_names(names(takers)), where,
          more == 0 ? "" : fmt::format(", and {} more {}", more, more == 1 ? "path" : "paths")));
    }
    return sentences;
  }

  std::vector<Frame> make_frames() {
    std::vector<Frame> result;
    // Children have higher indexes than their parents, so from the end each frame is complete when
    // it is moved.
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      Node& node = nodes_[i];
      if (node.takers.count() != count_) {
        if (!node.frame.detail.is_object()) node.frame.detail = Json::object();
        node.frame.detail[all_have_ranks_ ? "ranks" : "processes"] = names(node.takers.list());
      }
      for (const std::uint32_t child : node.children) {
        node.frame.children.push_back(std::move(nodes_[child].frame));
      }
    }
    result.reserve(roots_.size());
    for (const std::uint32_t root : roots_) result.push_back(std::move(nodes_[root].frame));
    return result;
  }

  Report sum_;  ///< The first report, and the sums; its frames as long as it is the only one.
  std::uint32_t count_ = 0;
  bool all_have_ranks_ = true;
  Json processes_ = Json::array();
  std::vector<Json> ranks_, ids_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> roots_;
  std::unordered_map<std::string, std::uint32_t> known_;
};

Combination::Combination() : state_(std::make_unique<State>()) {}
Combination::~Combination() = default;

void Combination::add(Report report) {
  state_->add(std::move(report));
}

Report Combination::take() {
  return state_->take();
}

Report combine(std::vector<Report> reports) {
  Combination combination;
  for (Report& report : reports) combination.add(std::move(report));
  return combination.take();
}

Report join(std::vector<Report> reports) {
  Combination::State state;
  for (Report& report : reports) state.add_apart(std::move(report));
  return state.take_apart();
}

}  // namespace optrace
