#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "report/compare/compared_step.h"
#include "report/model/report_reader.h"

namespace optrace {

/// The children of one frame, and the frames found below children without a match.
struct MatchedSide {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  struct Entry {
    const Frame* frame = nullptr;
    std::uint64_t key = 0;
    std::uint32_t parent = kNone;        ///< The unmatched entry above, if any.
    std::uint32_t first_behind = kNone;  ///< Its children's first entry; they are consecutive.
    std::uint32_t behind = 0;
    std::uint32_t match = kNone;  ///< Index of an entry of the other side.
    bool matches_behind = false;  ///< An entry below has a match.
    bool dropped = false;         ///< Ignored: an entry above was matched later.
    bool shared = false;          ///< The matching entry has another match, too.
  };
  std::vector<Entry> entries;
  std::uint32_t direct = 0;  ///< Number of the frame's own children, which come first.
};

/// The frames of two reports that stand for each other, below two frames that do.
struct MatchedFrames {
  MatchedSide first, second;
  /// Keys of steps with as many calls on both sides, split differently.
  std::set<std::uint64_t> balanced;
};

/// Matches the children of two frames.
class FrameMatcher {
 public:
  /// `keys` must outlive the object. `same_build`: both reports are of the same build of PyTorch.
  FrameMatcher(StepKeys& keys, bool same_build) : keys_(keys), same_build_(same_build) {}

  /// Matches the frames of two lists by layer and by op or name, then, where a frame has no match,
  /// the frames below it. The frames must outlive the result. `calls_first` and `calls_second` are
  /// the calls of the frames above.
  MatchedFrames match(const std::vector<Frame>& first, const std::vector<Frame>& second,
                      std::uint64_t calls_first, std::uint64_t calls_second);

 private:
  std::vector<std::uint32_t> add(MatchedSide& side, const std::vector<Frame>& frames,
                                 std::uint32_t parent);
  std::vector<std::uint32_t> start(MatchedSide& side, const std::vector<Frame>& frames);
  void match_behind(MatchedSide& a, std::vector<std::uint32_t> open_a, MatchedSide& b,
                    std::vector<std::uint32_t> open_b);

  StepKeys& keys_;
  bool same_build_;
};

}  // namespace optrace
