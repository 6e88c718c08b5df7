#include "report/check/occurrences.h"

#include <algorithm>
#include <functional>

#include "pytorch/symbols/symbol_name.h"
#include "report/model/user_code.h"

namespace optrace {

std::string shown_name(const Frame& frame) {
  return frame.detail->dispatch && frame.op ? *frame.op : short_name(frame.name);
}

void Occurrences::add(const PathToFrame& path, std::uint64_t count) {
  if (count == 0) return;
  count_ += count;
  add_path(path.frames);
  add_place(path, count);
}

void Occurrences::add_path(const std::vector<const Frame*>& frames) {
  if (!first_) first_ = frames;
}

void Occurrences::add_place(const PathToFrame& path, std::uint64_t count) {
  const std::size_t at = path.user_frame;
  const FrameSource* const source = at == kNoUserFrame ? nullptr : source_at(path.frames, at);
  if (source == nullptr) return;
  const FrameSource* const next = source_at(path.frames, at + 1);
  const std::uint32_t line = calling_line(path.frames, at);
  const std::optional<CallRange> range = next != nullptr ? next->call_range : std::nullopt;
  const auto [known, is_new] = known_places_.try_emplace({source->file, line}, places_.size());
  if (is_new)
    places_.push_back({.function = shown_name(*path.frames[at]),
                       .file = source->file,
                       .line = line,
                       .range = range});
  CheckPlace& place = places_[known->second];
  place.count += count;
  if (place.range != range) place.range.reset();
}

void Occurrences::merge_place(const CheckPlace& place) {
  const auto known = std::ranges::find_if(places_, [&](const CheckPlace& one) {
    return one.file == place.file && one.line == place.line;
  });
  if (known == places_.end())
    places_.push_back(place);
  else
    known->count += place.count;
}

std::vector<CheckStep> Occurrences::path() const {
  std::vector<CheckStep> steps;
  if (!first_) return steps;
  for (std::size_t i = 0; i < first_->size(); ++i) {
    const Frame& frame = *(*first_)[i];
    CheckStep& step = steps.emplace_back();
    step.layer = frame.layer;
    step.name = shown_name(frame);
    if (!frame.source) continue;
    step.file = frame.source->file;
    step.line = frame.source->line;
    step.exact = !frame.source->approximate;
    if (const FrameSource* const next = source_at(*first_, i + 1);
        next != nullptr && next->call_line) {
      step.line = *next->call_line;
      step.exact = !next->call_approximate;
    }
  }
  return steps;
}

std::vector<CheckPlace> Occurrences::places() const {
  std::vector<CheckPlace> places = places_;
  std::ranges::stable_sort(places, std::ranges::greater(), &CheckPlace::count);
  return places;
}

}  // namespace optrace
