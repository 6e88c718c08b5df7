#include "report/output/call_stacks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "platform/json_writer.h"
#include "platform/printable_text.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/json_fields.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// The size of the output grows with the square of a recursion's depth.
constexpr std::size_t kMaxDepth = 512;

// Calls visit(thread, stack, weight) for each frame with a weight. `thread` is that of the
// outermost frame. `stack` holds what describe(frame) returned for each frame, outermost first. A
// frame below kMaxDepth has the stack of the frame at that depth.
template <class Describe, class Visit>
void for_each_stack(const Report& report, const Describe& describe, const Visit& visit) {
  std::uint64_t thread = 0;
  std::vector<decltype(describe(std::declval<const Frame&>()))> stack;
  walk_frames(report.roots, std::size_t{0}, [&](const Frame& frame, std::size_t above) {
    if (above == 0) thread = frame.thread;
    if (above < kMaxDepth) {
      stack.resize(above);
      stack.push_back(describe(frame));
    }
    if (const std::uint64_t weight = own_time(frame); weight != 0) visit(thread, stack, weight);
    return stack.size();
  });
}

}  // namespace

std::string to_folded(const Report& report) {
  std::string text;
  const auto describe = [](const Frame& frame) {
    std::string name = frame_label(frame);
    std::ranges::replace(name, ';', ',');
    return name;
  };
  for_each_stack(report, describe,
                 [&](std::uint64_t, const std::vector<std::string>& stack, std::uint64_t weight) {
                   text += fmt::format("{} {}\n", fmt::join(stack, ";"), weight);
                 });
  return text;
}

std::string to_speedscope(const Report& report) {
  using Json = nlohmann::ordered_json;
  struct Profile {
    std::uint64_t total = 0;
    Json samples = Json::array(), weights = Json::array();
  };
  Json frames = Json::array();
  std::map<std::tuple<std::string, std::string, std::uint32_t>, std::size_t> places;
  const auto index_of = [&](const Frame& frame) {
    const std::string file = frame.source ? valid_utf8(frame.source->file) : "";
    const std::uint32_t line = frame.source ? frame.source->line : 0;
    const auto [place, is_new] =
        places.try_emplace({frame_label(frame), file, line}, frames.size());
    if (is_new) {
      Json described = {{"name", std::get<0>(place->first)}};
      if (!file.empty()) described["file"] = file;
      if (line != 0) described["line"] = line;
      frames.push_back(std::move(described));
    }
    return place->second;
  };
  std::map<std::uint64_t, Profile> profiles;  // By thread.
  for_each_stack(
      report, index_of,
      [&](std::uint64_t thread, const std::vector<std::size_t>& stack, std::uint64_t weight) {
        Profile& profile = profiles[thread];
        profile.samples.push_back(stack);
        profile.weights.push_back(weight);
        profile.total += weight;
      });
  Json all = Json::array();
  for (auto& [thread, profile] : profiles) {
    all.push_back({{"type", "sampled"},
                   {"name", fmt::format("thread {}", thread)},
                   {"unit", "nanoseconds"},
                   {"startValue", 0},
                   {"endValue", profile.total},
                   {"samples", std::move(profile.samples)},
                   {"weights", std::move(profile.weights)}});
  }
  return write_json(Json{{"$schema", "https://www.speedscope.app/file-format-schema.json"},
                         {"name", valid_utf8(text_at(report.meta, "call"))},
                         {"activeProfileIndex", 0},
                         {"exporter", "optrace"},
                         {"shared", {{"frames", std::move(frames)}}},
                         {"profiles", std::move(all)}}) +
         "\n";
}

}  // namespace optrace
