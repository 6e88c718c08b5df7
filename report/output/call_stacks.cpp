#include "report/output/call_stacks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "platform/json_writer.h"
#include "platform/printable_text.h"
#include "report/model/json_fields.h"
#include "report/model/symbol_name.h"

namespace optrace {
namespace {

std::uint64_t total_of(const Frame& frame) {
  return count_at(object_at(frame.detail, "time"), "total");
}

// Returns the time in the frame itself.
std::uint64_t own_time(const Frame& frame) {
  if (frame.layer == Layer::device)
    return count_at(object_at(frame.detail, "duration_ns"), "total");
  std::uint64_t inside = 0;
  for (const Frame& child : frame.children) inside += total_of(child);
  const std::uint64_t total = total_of(frame);
  return total > inside ? total - inside : 0;
}

std::string name_of(const Frame& frame) {
  const bool is_step = frame.op && !text_at(frame.detail, "step").empty();
  return printable(is_step ? *frame.op + " (" + text_at(frame.detail, "step") + ")"
                           : short_name(frame.name));
}

// The size of the output grows with the square of a recursion's depth.
constexpr std::size_t kMaxDepth = 512;

// Calls visit(stack, weight) for each frame with a weight, outermost frame first. Walks without
// recursion: a tree may be as deep as the traced program's recursion. A frame below kMaxDepth has
// the stack of the frame at that depth.
template <class Visit>
void for_each_stack(const std::vector<Frame>& roots, const Visit& visit) {
  std::vector<const Frame*> stack;
  std::vector<std::pair<const Frame*, std::size_t>> pending;  // With the number of frames above.
  for (auto root = roots.rbegin(); root != roots.rend(); ++root) pending.emplace_back(&*root, 0);
  while (!pending.empty()) {
    const auto [frame, above] = pending.back();
    pending.pop_back();
    if (above < kMaxDepth) {
      stack.resize(above);
      stack.push_back(frame);
    }
    if (const std::uint64_t weight = own_time(*frame); weight != 0) visit(stack, weight);
    for (auto child = frame->children.rbegin(); child != frame->children.rend(); ++child)
      pending.emplace_back(&*child, stack.size());
  }
}

}  // namespace

std::string to_folded(const Report& report) {
  std::string text;
  std::unordered_map<const Frame*, std::string> names;
  for_each_stack(report.roots, [&](const std::vector<const Frame*>& stack, std::uint64_t weight) {
    for (const Frame* const frame : stack) {
      const auto [place, is_new] = names.try_emplace(frame);
      if (is_new) {
        place->second = name_of(*frame);
        std::ranges::replace(place->second, ';', ',');
      }
      if (frame != stack.front()) text += ';';
      text += place->second;
    }
    text += fmt::format(" {}\n", weight);
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
  std::unordered_map<const Frame*, std::size_t> known;
  const auto index_of = [&](const Frame& frame) {
    const auto [place, is_new] = known.try_emplace(&frame);
    if (!is_new) return place->second;
    const std::string file = frame.source ? valid_utf8(frame.source->file) : "";
    const std::uint32_t line = frame.source ? frame.source->line : 0;
    const auto [shared, is_first] = places.try_emplace({name_of(frame), file, line}, frames.size());
    if (is_first) {
      Json described = {{"name", std::get<0>(shared->first)}};
      if (!file.empty()) described["file"] = file;
      if (line != 0) described["line"] = line;
      frames.push_back(std::move(described));
    }
    return place->second = shared->second;
  };
  std::map<std::uint64_t, Profile> profiles;  // By thread.
  for_each_stack(report.roots, [&](const std::vector<const Frame*>& stack, std::uint64_t weight) {
    Profile& profile = profiles[stack.front()->thread];
    Json sample = Json::array();
    for (const Frame* const frame : stack) sample.push_back(index_of(*frame));
    profile.samples.push_back(std::move(sample));
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
