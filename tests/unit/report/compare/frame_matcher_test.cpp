#include "report/compare/frame_matcher.h"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/report/frames.h"

using namespace optrace;
using namespace optrace::test;

namespace {

// Returns `a=b` for each entry of the first with a match, `a` for others.
std::vector<std::string> matches(const MatchedFrames& found) {
  std::vector<std::string> lines;
  for (const MatchedSide::Entry& entry : found.first.entries) {
    const bool has_match = entry.match != MatchedSide::kNone;
    lines.push_back(entry.frame->name +
                    (has_match ? "=" + found.second.entries[entry.match].frame->name : ""));
  }
  return lines;
}

std::vector<std::string> matches(const std::vector<Frame>& first, const std::vector<Frame>& second,
                                 bool same_build = true) {
  StepKeys keys;
  return matches(FrameMatcher(keys, same_build).match(first, second, 1, 1));
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("frames are matched by layer and name, each once", "[frame_matcher]") {
  const auto first = list(frame(Layer::library, "f<int>"), frame(Layer::library, "g"),
                          frame(Layer::library, "f<int>"));
  const auto second = list(frame(Layer::library, "f<long>"), frame(Layer::runtime, "g"));
  CHECK(matches(first, second) == Lines{"f<int>=f<long>", "g", "f<int>"});
}

TEST_CASE("a frame is found below one that only the other side has", "[frame_matcher]") {
  Frame above = frame(Layer::runtime, "inlined");
  above.children.push_back(frame(Layer::library, "gemm"));
  const auto first = list(std::move(above));
  const auto second = list(frame(Layer::library, "gemm"));
  CHECK(matches(first, second) == Lines{"inlined", "gemm=gemm"});
  StepKeys keys;
  const MatchedFrames found = FrameMatcher(keys, true).match(second, first, 1, 1);
  CHECK(matches(found) == Lines{"gemm=gemm"});
  CHECK(found.second.direct == 1);
  CHECK(found.second.entries[0].matches_behind);
}

TEST_CASE("functions that moved are matched only for different builds", "[frame_matcher]") {
  const auto first = list(frame(Layer::runtime, "at::old::add_out"));
  const auto second = list(frame(Layer::runtime, "at::fresh::add_out"));
  CHECK(matches(first, second) == Lines{"at::old::add_out"});
  CHECK(matches(first, second, false) == Lines{"at::old::add_out=at::fresh::add_out"});
}

TEST_CASE("device kernels that replaced each other are matched", "[frame_matcher]") {
  CHECK(matches(list(frame(Layer::device, "winograd")), list(frame(Layer::device, "fft"))) ==
        Lines{"winograd=fft"});
}

TEST_CASE("as many calls that are split differently are balanced", "[frame_matcher]") {
  Frame a = frame(Layer::runtime, "a"), b = frame(Layer::runtime, "b");
  a.children.push_back(frame(Layer::library, "gemm", 2));
  b.children.push_back(frame(Layer::library, "gemm", 3));
  const auto first = list(std::move(a), std::move(b));
  const auto second = list(frame(Layer::library, "gemm", 5));
  StepKeys keys;
  const MatchedFrames found = FrameMatcher(keys, true).match(first, second, 1, 1);
  CHECK(found.balanced.size() == 1);
  CHECK(matches(found) == Lines{"a", "b", "gemm=gemm", "gemm=gemm"});
}
