#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "platform/text/joined.h"
#include "platform/text/json_writer.h"
#include "platform/text/printable_text.h"
#include "report/formats/writers.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// The size of the output grows with the square of a recursion's depth.
constexpr std::size_t kMaxDepth = 512;

// Calls visit(stack, weight) for each frame with a weight. `stack` holds what describe(frame)
// returned for each frame, outermost first. A frame below kMaxDepth has the stack of the frame at
// that depth.
template <class Frames, class Describe, class Visit>
void for_each_stack(const Frames& roots, const Describe& describe, const Visit& visit) {
  std::vector<decltype(describe(std::declval<const Frame&>()))> stack;
  walk_frames(roots, std::size_t{0}, [&](const Frame& frame, std::size_t above) {
    if (above < kMaxDepth) {
      stack.resize(above);
      stack.push_back(describe(frame));
    }
    if (const std::uint64_t weight = own_time(frame); weight != 0) visit(stack, weight);
    return stack.size();
  });
}

// The frames of speedscope's file, each once, and their numbers.
class SpeedscopeFrames {
 public:
  std::size_t number_of(const Frame& frame) {
    const std::string file = frame.source ? valid_utf8(frame.source->file) : "";
    // The format has no way to mark a line as approximate.
    const bool exact = frame.source && !frame.source->approximate;
    const std::uint32_t line = exact ? frame.source->line : 0;
    const auto [place, is_new] =
        numbers_.try_emplace({frame_label(frame), file, line}, places_.size());
    if (is_new) places_.push_back(&place->first);
    return place->second;
  }

  void write(OutputSink& sink) const {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const auto& [name, file, line] = *places_[i];
      sink.print("{}\n{{\"name\":{}", i == 0 ? "" : ",", json_string(name));
      if (!file.empty()) sink.print(",\"file\":{}", json_string(file));
      if (line != 0) sink.print(",\"line\":{}", line);
      sink.write("}");
    }
  }

 private:
  using Place = std::tuple<std::string, std::string, std::uint32_t>;
  std::map<Place, std::size_t> numbers_;
  std::vector<const Place*> places_;
};

// Writes a sampled profile of the frames of one thread, a sample in each line.
void write_sampled(const std::vector<const Frame*>& roots, std::uint64_t thread,
                   SpeedscopeFrames& frames, OutputSink& sink) {
  sink.print(
      R"({{"type":"sampled","name":"thread {}","unit":"nanoseconds","startValue":0,"samples":[)",
      thread);
  std::vector<std::uint64_t> weights;
  const auto number_of = [&](const Frame& frame) { return frames.number_of(frame); };
  for (const Frame* const root : roots) {
    for_each_stack(std::span(root, 1), number_of,
                   [&](const std::vector<std::size_t>& stack, std::uint64_t weight) {
                     sink.print("{}\n[{}]", weights.empty() ? "" : ",", joined(stack, ","));
                     weights.push_back(weight);
                   });
  }
  sink.print("],\n\"weights\":[");
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sink.print("{}{}", i == 0 ? "" : ",\n", weights[i]);
    total += weights[i];
  }
  sink.print("],\n\"endValue\":{}}}", total);
}

// Writes the calls of one thread, each call's begin and end in a line of its own.
void write_evented(const Timeline::Thread& thread, const std::vector<const Frame*>& by_number,
                   SpeedscopeFrames& frames, OutputSink& sink) {
  struct Open {
    std::size_t frame;
    std::uint64_t end;
  };
  std::vector<Open> open;
  std::uint64_t last = 0;
  bool first = true;
  const auto event = [&](char type, std::size_t frame, std::uint64_t at) {
    sink.print(R"({}{}{{"type":"{}","frame":{},"at":{}}})", std::exchange(first, false) ? "" : ",",
               "\n", type, frame, at);
    last = at;
  };
  const auto close_until = [&](std::uint64_t time) {
    for (; !open.empty() && open.back().end <= time; open.pop_back())
      event('C', open.back().frame, open.back().end);
  };
  sink.print(
      R"({{"type":"evented","name":"thread {}","unit":"nanoseconds","startValue":0,"events":[)",
      thread.id);
  for (const Timeline::Call& call : thread.calls) {
    if (call.frame >= by_number.size() || by_number[call.frame] == nullptr) continue;
    close_until(call.start);
    if (open.size() >= kMaxDepth) continue;
    open.push_back({frames.number_of(*by_number[call.frame]), call.end});
    event('O', open.back().frame, call.start);
  }
  close_until(std::numeric_limits<std::uint64_t>::max());
  sink.print("],\n\"endValue\":{}}}", last);
}

// Returns the frames of a report by Frame::number.
std::vector<const Frame*> frames_by_number(const Report& report) {
  std::vector<const Frame*> frames;
  walk_frames(report.roots, 0, [&](const Frame& frame, int) {
    if (frame.number >= frames.size()) frames.resize(frame.number + std::size_t{1});
    if (frame.number != 0) frames[frame.number] = &frame;
    return 0;
  });
  return frames;
}

}  // namespace

void to_folded(const Report& report, const FormatOptions&, OutputSink& sink) {
  const auto describe = [](const Frame& frame) {
    std::string name = frame_label(frame);
    std::ranges::replace(name, ';', ',');
    return name;
  };
  for_each_stack(report.roots, describe,
                 [&](const std::vector<std::string>& stack, std::uint64_t weight) {
                   sink.print("{} {}\n", joined(stack, ";"), weight);
                 });
}

void to_speedscope(const Report& report, const FormatOptions&, OutputSink& sink) {
  sink.print(R"({{"$schema":"https://www.speedscope.app/file-format-schema.json","name":{},)"
             R"("activeProfileIndex":0,"exporter":"optrace",)"
             "\n\"profiles\":[",
             json_string(valid_utf8(report.recording.call)));
  SpeedscopeFrames frames;
  bool first = true;
  const auto next_profile = [&] { sink.write(std::exchange(first, false) ? "\n" : ",\n"); };
  if (report.timeline) {
    const std::vector<const Frame*> by_number = frames_by_number(report);
    for (const Timeline::Thread& thread : report.timeline->threads) {
      if (thread.calls.empty()) continue;
      next_profile();
      write_evented(thread, by_number, frames, sink);
    }
  } else {
    std::map<std::uint64_t, std::vector<const Frame*>> threads;
    for (const Frame& root : report.roots) threads[root.thread].push_back(&root);
    for (const auto& [thread, roots] : threads) {
      next_profile();
      write_sampled(roots, thread, frames, sink);
    }
  }
  sink.write("],\n\"shared\":{\"frames\":[");
  frames.write(sink);
  sink.write("]}}\n");
}

}  // namespace optrace
