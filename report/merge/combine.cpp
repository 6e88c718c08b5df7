#include "report/merge/combine.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "platform/error.h"
#include "report/model/shortfalls.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kNoNode = 0xFFFFFFFF;

/// Detail keys that distinguish frames of the same function.
constexpr const char* kTelling[] = {"step",           "python_name", "cpu_capability",
                                    "implementation", "tail_call",   "entered_before_recording"};

/// A frame without its children, and the reports that contain it.
struct Node {
  Frame frame;
  std::vector<std::uint32_t> takers;  ///< Indexes of the reports, ascending.
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

class Combination {
 public:
  explicit Combination(std::vector<Report> reports) : reports_(std::move(reports)) {}

  Report run() {
    for (std::uint32_t taker = 0; taker < reports_.size(); ++taker) describe(taker);
    for (std::uint32_t taker = 0; taker < reports_.size(); ++taker) {
      add(taker, std::move(reports_[taker].roots));
    }
    Report sum = add_up();
    sum.meta["differences"] = differences();
    sum.roots = make_frames();
    return sum;
  }

  Report run_apart() {
    for (std::uint32_t taker = 0; taker < reports_.size(); ++taker) describe(taker);
    std::vector<Frame> roots;
    for (Report& report : reports_) std::ranges::move(report.roots, std::back_inserter(roots));
    Report sum = add_up();
    sum.roots = std::move(roots);
    return sum;
  }

 private:
  /// Combines all but the frames.
  Report add_up() {
    Report sum = std::move(reports_.front());
    for (std::size_t i = 1; i < reports_.size(); ++i) {
      sum.threads += reports_[i].threads;
      for (const Shortfall& shortfall : reports_[i].shortfalls)
        add_shortfall(sum.shortfalls, shortfall);
      for (const auto member : kCallTreeStatistics) {
        sum.statistics.*member += reports_[i].statistics.*member;
      }
      add_warnings(sum.meta, reports_[i].meta);
    }
    sum.processes = processes_;
    return sum;
  }

  /// Records the rank and process id of a report. Throws Error(usage) if its torch differs from the
  /// first's.
  void describe(std::uint32_t taker) {
    const Report& report = reports_[taker];
    for (const char* const key : {"version", "git_version"}) {
      if (report.torch.value(key, Json()) == reports_.front().torch.value(key, Json())) continue;
      throw Error(ExitStatus::usage,
                  fmt::format("the traces are of different versions of torch: {} and {}",
                              reports_.front().torch.value("version", Json()).dump(),
                              report.torch.value("version", Json()).dump()),
                  "Give the traces of one job.");
    }
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
    ids_.push_back(id.is_null() ? Json(taker) : id);
  }

  /// Adds a report's frames, parents first, without recursion: the tree may have any depth.
  void add(std::uint32_t taker, std::vector<Frame> roots) {
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
      const std::uint32_t node = add(taker, std::move(frame), level.parent, level.place);
      open.push_back({std::move(children), 0, node, 0});
    }
  }

  std::uint32_t add(std::uint32_t taker, Frame frame, std::uint32_t parent, std::size_t& place) {
    std::vector<std::uint32_t>& siblings = parent == kNoNode ? roots_ : nodes_[parent].children;
    const auto [at, added] =
        known_.try_emplace(key_of(parent, frame), static_cast<std::uint32_t>(nodes_.size()));
    const std::uint32_t index = at->second;
    if (added) {
      siblings.insert(siblings.begin() + static_cast<std::ptrdiff_t>(place++), index);
      nodes_.push_back({std::move(frame), {taker}, {}, parent});
      return index;
    }
    const auto where = std::find(siblings.begin(), siblings.end(), index) - siblings.begin();
    place = std::max(place, static_cast<std::size_t>(where) + 1);
    Node& node = nodes_[index];
    if (node.takers.back() != taker) node.takers.push_back(taker);
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
      if (node.takers.size() == reports_.size()) continue;
      if (node.parent != kNoNode && nodes_[node.parent].takers == node.takers) continue;
      ++groups.try_emplace(node.takers, 0, i).first->second.first;
    }
    Json sentences = Json::array();
    for (const auto& [takers, place] : groups) {
      std::string who;
      for (const Json& name : names(takers)) {
        who += (who.empty() ? "" : ", ") + name.dump();
      }
      const Node& node = nodes_[place.second];
      std::string where = shown(node.frame);
      if (node.parent != kNoNode) where += " under " + shown(nodes_[node.parent].frame);
      const std::size_t more = place.first - 1;
      sentences.push_back(fmt::format(
          "only {}{} {} took {}{}", all_have_ranks_ ? "rank" : "process",
          takers.size() == 1 ? ""
          : all_have_ranks_  ? "s"
                             : "es",
          who, where,
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
      if (node.takers.size() != reports_.size()) {
        if (!node.frame.detail.is_object()) node.frame.detail = Json::object();
        node.frame.detail[all_have_ranks_ ? "ranks" : "processes"] = names(node.takers);
      }
      for (const std::uint32_t child : node.children) {
        node.frame.children.push_back(std::move(nodes_[child].frame));
      }
    }
    result.reserve(roots_.size());
    for (const std::uint32_t root : roots_) result.push_back(std::move(nodes_[root].frame));
    return result;
  }

  std::vector<Report> reports_;
  bool all_have_ranks_ = true;
  Json processes_ = Json::array();
  std::vector<Json> ranks_, ids_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> roots_;
  std::unordered_map<std::string, std::uint32_t> known_;
};

}  // namespace

Report combine(std::vector<Report> reports) {
  if (reports.size() == 1) return std::move(reports.front());
  return Combination(std::move(reports)).run();
}

Report join(std::vector<Report> reports) {
  if (reports.size() == 1) return std::move(reports.front());
  return Combination(std::move(reports)).run_apart();
}

}  // namespace optrace
