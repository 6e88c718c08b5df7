#include "src/tree_browser/frame_list.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_map>

#include "platform/error.h"
#include "platform/text/printable_text.h"
#include "present/line_text.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/user_code.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// Everything that a frame's label and file are made of.
std::string key_of(const Frame& frame) {
  const Shared<DispatchDetail>& dispatch = frame.detail->dispatch;
  std::string key = frame.name;
  for (const std::string& more :
       {frame.op.value_or(""), std::string(dispatch ? name_of(dispatch->step) : ""),
        frame.source ? frame.source->file : std::string()}) {
    key += '\0';
    key += more;
  }
  key += static_cast<char>(frame.layer);
  return key;
}

std::string search_text(const Frame& frame) {
  std::string text = frame_label(frame);
  if (frame.source && !frame.source->file.empty())
    text += "  " + printable(place_text(*frame.source));
  return text;
}

}  // namespace

FrameList::FrameList(const Report& report) {
  walk_frames(report.roots, kNoFrame, [this](const Frame& frame, FrameNumber above) {
    if (entries_.size() >= kNoFrame)
      throw Error(ExitStatus::usage, "the report has too many frames to browse",
                  "Show a part of it with --under, --depth or --min-time.");
    entries_.push_back({.frame = &frame, .above = above, .frames = 1, .name = 0});
    return static_cast<FrameNumber>(entries_.size() - 1);
  });
  for (std::size_t i = entries_.size(); i-- > 0;)
    if (entries_[i].above != kNoFrame) entries_[entries_[i].above].frames += entries_[i].frames;
  add_names();
  set_order(ChildOrder::call);
}

void FrameList::add_names() {
  std::unordered_map<std::string, std::uint32_t> known;
  for (Entry& entry : entries_) {
    const auto [name, is_new] =
        known.emplace(key_of(*entry.frame), static_cast<std::uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(search_text(*entry.frame));
    entry.name = name->second;
  }
}

std::optional<FilePlace> FrameList::program_line(FrameNumber number) const {
  for (FrameNumber caller = above(number); caller != kNoFrame; caller = above(number)) {
    const Shared<FrameSource>& program = frame(caller).source;
    const Shared<FrameSource>& call = frame(number).source;
    if (is_program_code(frame(caller)) && program && call && call->call_line)
      // NOLINTNEXTLINE(bugprone-unchecked-optional-access): the line above checks it.
      return FilePlace{.file = program->file, .line = *call->call_line};
    number = caller;
  }
  return std::nullopt;
}

void FrameList::set_order(ChildOrder order) {
  order_ = order;
  shown_.resize(size());
  std::iota(shown_.begin(), shown_.end(), FrameNumber{0});
  if (order == ChildOrder::time) sort_by_time();
  places_.resize(size());
  for (std::size_t place = 0; place < shown_.size(); ++place)
    places_[shown_[place]] = static_cast<std::uint32_t>(place);
}

void FrameList::sort_by_time() {
  std::vector<std::uint64_t> times(size());
  for (std::size_t i = 0; i < size(); ++i) {
    const Frame& one = *entries_[i].frame;
    times[i] = one.layer == Layer::device ? own_time(one) : total_time(one);
  }
  std::vector<FrameNumber> pending, children;
  const auto add_children = [&](std::size_t first, std::size_t end) {
    children.clear();
    for (std::size_t i = first; i < end; i += entries_[i].frames)
      children.push_back(static_cast<FrameNumber>(i));
    std::ranges::stable_sort(children, std::greater{}, [&](FrameNumber one) { return times[one]; });
    pending.insert(pending.end(), children.rbegin(), children.rend());
  };
  add_children(0, size());
  for (std::size_t place = 0; !pending.empty(); ++place) {
    const FrameNumber next = pending.back();
    pending.pop_back();
    shown_[place] = next;
    add_children(next + std::size_t{1}, next + entries_[next].frames);
  }
}

}  // namespace optrace
