#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "present/file_links.h"
#include "report/model/report.h"

namespace optrace {

/// The order in which the frames called by one frame are shown.
enum class ChildOrder : std::uint8_t {
  call,  ///< As they were first called.
  time,  ///< The longest in total first.
};

/// The number of a frame: its place in call order, parents first.
using FrameNumber = std::uint32_t;
inline constexpr FrameNumber kNoFrame = static_cast<FrameNumber>(-1);

/// All frames of a report, numbered, in an order in which each frame is followed by those below it.
class FrameList {
 public:
  /// The report must outlive the object. Throws Error(usage) for more frames than have numbers.
  explicit FrameList(const Report& report);

  std::size_t size() const { return entries_.size(); }
  const Frame& frame(FrameNumber number) const { return *entries_[number].frame; }
  /// Returns the frame that calls a frame; kNoFrame for a root.
  FrameNumber above(FrameNumber number) const { return entries_[number].above; }
  /// Returns the line of the program's own code that leads to a frame: the innermost one that calls
  /// it or a frame above. Nothing if there is none, or if its place is unknown.
  std::optional<FilePlace> program_line(FrameNumber number) const;
  /// Returns the number of frames in and below a frame.
  std::size_t frames_in(FrameNumber number) const { return entries_[number].frames; }

  /// Returns what identifies the frame's text: frames with equal texts have equal names.
  std::uint32_t name(FrameNumber number) const { return entries_[number].name; }
  std::size_t names() const { return texts_.size(); }
  /// Returns the text that a search looks at: the label and the file.
  const std::string& text(std::uint32_t name) const { return texts_[name]; }

  ChildOrder order() const { return order_; }
  void set_order(ChildOrder order);
  /// Returns the place of a frame in the current order, and the frame at a place.
  std::size_t place_of(FrameNumber number) const { return places_[number]; }
  FrameNumber at(std::size_t place) const { return shown_[place]; }

 private:
  struct Entry {
    const Frame* frame;
    FrameNumber above;
    std::uint32_t frames;
    std::uint32_t name;
  };

  void add_names();
  void sort_by_time();

  std::vector<Entry> entries_;      // In call order.
  std::vector<std::string> texts_;  // By name.
  ChildOrder order_ = ChildOrder::call;
  std::vector<FrameNumber> shown_;     // In the current order.
  std::vector<std::uint32_t> places_;  // By number.
};

}  // namespace optrace
