// carried_lines TORCH OTHER_TORCH: measures how often a line is wrong that AnchorAlignment calls
// exact. Each anchor of the first torch's folder that occurs once in a source file of both wheels
// is left out of both, and its line is predicted from the others; the other wheel tells the true
// line. Prints one JSON object with counts: lines, exact, exact_wrong, bounded, bounded_wrong,
// unbounded.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "indexer/wheel/anchor_alignment.h"
#include "indexer/wheel/wheel_code.h"
#include "platform/error.h"

namespace {

using namespace optrace;
using Anchors = std::vector<IndexedAnchor>;

struct Counts {
  std::size_t lines = 0;
  std::size_t exact = 0;
  std::size_t exact_wrong = 0;
  std::size_t bounded = 0;
  std::size_t bounded_wrong = 0;
  std::size_t unbounded = 0;
};

// Lines of headers and of generated code are not predicted.
bool is_predicted(const std::string& file) {
  return !file.starts_with("build/") && file.find("/generated/") == std::string::npos &&
         (file.ends_with(".cpp") || file.ends_with(".cu"));
}

Anchors without_line(Anchors anchors, std::uint32_t line) {
  std::erase_if(anchors, [&](const IndexedAnchor& anchor) { return anchor.line == line; });
  return anchors;
}

std::size_t count_of(const Anchors& anchors, std::uint32_t key) {
  return static_cast<std::size_t>(
      std::ranges::count(anchors, key, [](const IndexedAnchor& anchor) { return anchor.key; }));
}

void measure(const Anchors& from, const Anchors& to, Counts& counts) {
  for (const IndexedAnchor& anchor : from) {
    if (count_of(from, anchor.key) != 1 || count_of(to, anchor.key) != 1) continue;
    const std::uint32_t truth = std::ranges::find(to, anchor.key, &IndexedAnchor::key)->line;
    const AnchorAlignment alignment(without_line(from, anchor.line), without_line(to, truth));
    const MappedLine carried = alignment.carry(anchor.file, anchor.line);
    ++counts.lines;
    if (!carried.approximate) {
      ++counts.exact;
      if (carried.line != truth) ++counts.exact_wrong;
    } else if (carried.approximate->last == 0) {
      ++counts.unbounded;
    } else {
      ++counts.bounded;
      if (truth < carried.approximate->first || truth > carried.approximate->last)
        ++counts.bounded_wrong;
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  try {
    std::map<std::string, std::pair<Anchors, Anchors>> files;
    for (const IndexedAnchor& anchor : WheelCode::read(arguments[1]).places())
      if (is_predicted(anchor.file)) files[anchor.file].first.push_back(anchor);
    for (const IndexedAnchor& anchor : WheelCode::read(arguments[2]).places())
      if (is_predicted(anchor.file)) files[anchor.file].second.push_back(anchor);
    Counts counts;
    for (const auto& [file, anchors] : files) measure(anchors.first, anchors.second, counts);
    std::printf(
        "{\"lines\": %zu, \"exact\": %zu, \"exact_wrong\": %zu, \"bounded\": %zu, "
        "\"bounded_wrong\": %zu, \"unbounded\": %zu}\n",
        counts.lines, counts.exact, counts.exact_wrong, counts.bounded, counts.bounded_wrong,
        counts.unbounded);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
