#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "platform/text/json_fields.h"
#include "platform/text/json_writer.h"
#include "present/line_text.h"
#include "pytorch/values/values_json.h"
#include "report/formats/perfetto.h"
#include "report/formats/writers.h"
#include "report/model/frame_name.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// Kineto counts from the last multiple of this number of seconds, a quarter of the mean Gregorian
// year (ChromeTraceBaseTime in its output_json.cpp, as of torch 2.6 to 2.15).
constexpr std::uint64_t kBaseSeconds = 7'889'238;
constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

// Added to a process's id, so that its tracks are not those of torch.profiler. Linux has no ids
// above 2^22. The tracks of streams are numbered from there, too.
constexpr std::uint64_t kFirstFreeId = 10'000'000;

// Readers keep times as doubles, which have a precision of a nanosecond at this distance from the
// base. Slices that end or begin together stay nested if they are so far apart.
constexpr std::uint64_t kGap = 2;  // Nanoseconds.

// Ends spans a little earlier where others end or begin at the same time. `spans` are ordered by
// start, outer ones first.
template <class Span>
void separate(std::vector<Span>& spans) {
  struct Open {
    Span* span;
    std::uint64_t inside;  // The last end of a span inside of it.
  };
  std::vector<Open> open;  // Outermost first.
  // Ends the spans from `first` on, the outermost of them at `limit` at the latest.
  const auto end_from = [&](std::size_t first, std::uint64_t limit) {
    for (std::size_t i = first; i < open.size(); ++i) {
      Span& span = *open[i].span;
      span.end = std::max(open[i].inside, std::min(span.end, limit));
      limit = std::max(span.start, span.end - std::min(span.end, kGap));
      if (i > 0) open[i - 1].inside = std::max(open[i - 1].inside, std::min(span.end, limit));
    }
    open.resize(first);
  };
  for (Span& span : spans) {
    std::size_t first = open.size();
    while (first > 0 && open[first - 1].span->end <= span.start) --first;
    end_from(first, span.start - std::min(span.start, kGap));
    open.push_back({&span, span.start});
  }
  if (!open.empty()) end_from(0, open.front().span->end);
}

// Writes the events of one process.
class ProcessWriter {
 public:
  ProcessWriter(const Report& report, std::uint64_t process, std::uint64_t base,
                std::uint64_t& arrows, OutputSink& sink)
      : report_(report),
        timeline_(*report.timeline),
        process_(process),
        start_(timeline_.start_unix_ns - base),
        arrows_(arrows),
        sink_(sink) {}

  void write() {
    list_frames();
    names();
    for (const Timeline::Thread& thread : timeline_.threads) calls(thread);
    for (std::size_t i = 0; i < timeline_.lanes.size(); ++i) works(i);
    for (const Timeline::Arrow& launch : timeline_.launches)
      arrow("launch", launch, id_of_lane(launch.to.track), true);
    for (const Timeline::Arrow& backward : timeline_.backwards)
      arrow("forward to backward", backward, timeline_.threads[backward.to.track].id,
            is_shown(backward.to));
  }

 private:
  static std::uint64_t id_of_lane(std::size_t lane) { return kFirstFreeId + lane; }

  // Writes a time in microseconds, the unit of the format.
  std::string time(std::uint64_t nanoseconds) const { return microseconds(start_ + nanoseconds); }
  static std::string microseconds(std::uint64_t nanoseconds) {
    return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  }

  void list_frames() {
    walk_frames(report_.roots, 0, [this](const Frame& frame, int) {
      if (frame.number >= frames_.size()) frames_.resize(frame.number + std::size_t{1});
      if (frame.number != 0) frames_[frame.number].frame = &frame;
      return 0;
    });
  }

  void names() {
    std::string name = report_.recording.call;
    if (name.empty()) name = "python";
    if (timeline_.rank) name += fmt::format(", rank {}", *timeline_.rank);
    name += fmt::format(" (optrace, process {})", timeline_.process);
    metadata("process_name", 0, {{"name", name}});
    if (report_.dry_run)
      metadata("process_labels", 0, {{"labels", "dry run: streams have no durations"}});
    for (const Timeline::Thread& thread : timeline_.threads) {
      if (thread.calls.empty()) continue;
      const bool is_main = thread.id == timeline_.process;
      metadata("thread_name", thread.id,
               {{"name", is_main ? "main thread" : fmt::format("thread {}", thread.id)}});
    }
    for (std::size_t i = 0; i < timeline_.lanes.size(); ++i) {
      const Timeline::StreamLane& lane = timeline_.lanes[i];
      std::string track = fmt::format("cuda:{} stream {}", lane.device, lane.stream);
      if (lane.number != 0) track += fmt::format(", concurrent {}", lane.number);
      metadata("thread_name", id_of_lane(i), {{"name", track}});
      metadata("thread_sort_index", id_of_lane(i), {{"sort_index", id_of_lane(i)}});
    }
  }

  void metadata(std::string_view what, std::uint64_t track, const nlohmann::json& arguments) {
    sink_.print(R"(,{}{{"ph":"M","pid":{},"tid":{},"name":"{}","args":{}}})", "\n", process_, track,
                what, write_json(arguments));
  }

  // Writes a slice. `described` has its name, category and arguments.
  void slice(std::uint64_t track, std::uint64_t start, std::uint64_t end,
             std::string_view described) {
    sink_.print(R"(,{}{{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},{}}})", "\n", process_, track,
                time(start), microseconds(end - start), described);
  }

  static std::string described(std::string_view name, std::string_view category,
                               const nlohmann::json& arguments) {
    return fmt::format(R"("name":{},"cat":"{}","args":{})", json_string(name), category,
                       write_json(arguments));
  }

  static std::string describe(const Frame& frame) {
    nlohmann::json arguments = nlohmann::json::object();
    if (frame.source) {
      if (!frame.source->file.empty()) arguments["source"] = place_text(*frame.source);
      if (const auto line = frame.source->call_line) {
        if (frame.source->call_approximate)
          arguments["called at line"] = line_text(*line, false);
        else
          arguments["called at line"] = *line;
      }
    }
    if (frame.op) arguments["op"] = *frame.op;
    if (frame.library) arguments["library"] = *frame.library;
    if (const std::string& key = frame.detail->dispatch->choice.dispatch_key; !key.empty())
      arguments["dispatch key"] = key;
    return described(frame_label(frame), name_of(frame.layer), arguments);
  }

  // Lanes show the works of a kind one by one.
  static std::string describe(const Timeline::WorkKind& kind) {
    nlohmann::json details = std::visit([](const auto& one) { return to_json(one); }, kind.details);
    details.erase("calls");
    return described(kind.name, "device", details);
  }

  void calls(const Timeline::Thread& thread) {
    std::vector<Timeline::Call> calls;
    std::ranges::copy_if(thread.calls, std::back_inserter(calls),
                         [this](const Timeline::Call& call) { return is_shown(call); });
    separate(calls);
    for (const Timeline::Call& call : calls) {
      ShownFrame& shown = frames_[call.frame];
      if (shown.described.empty()) shown.described = describe(*shown.frame);
      slice(thread.id, call.start, call.end, shown.described);
    }
  }

  void works(std::size_t lane) {
    std::vector<Timeline::Work> works = timeline_.lanes[lane].works;
    separate(works);
    for (const Timeline::Work& work : works)
      slice(id_of_lane(lane), work.start, work.end, describe(timeline_.work_kinds[work.kind]));
  }

  bool is_shown(const Timeline::Call& call) const {
    return call.frame < frames_.size() && frames_[call.frame].frame != nullptr;
  }

  // Returns true if a slice of the thread is there at that moment.
  bool is_shown(const Timeline::Moment& at) {
    if (outermost_.empty()) list_outermost();
    const std::vector<Timeline::Call>& calls = outermost_[at.track];
    const auto after = std::ranges::upper_bound(calls, at.time, {}, &Timeline::Call::start);
    return after != calls.begin() && at.time < std::prev(after)->end;
  }

  // Lists the slices of each thread that are in no other.
  void list_outermost() {
    for (const Timeline::Thread& thread : timeline_.threads) {
      std::vector<Timeline::Call>& calls = outermost_.emplace_back();
      for (const Timeline::Call& call : thread.calls)
        if (is_shown(call) && (calls.empty() || call.start >= calls.back().end))
          calls.push_back(call);
    }
  }

  // An arrow ends at the innermost slice that is there at its time.
  void arrow(std::string_view name, const Timeline::Arrow& arrow, std::uint64_t to_track,
             bool end_is_shown) {
    if (!end_is_shown || !is_shown(arrow.from)) return;
    ++arrows_;
    arrow_end('s', name, timeline_.threads[arrow.from.track].id, arrow.from.time);
    arrow_end('f', name, to_track, arrow.to.time);
  }

  void arrow_end(char phase, std::string_view name, std::uint64_t track, std::uint64_t at) {
    sink_.print(
        R"(,{}{{"ph":"{}","bp":"e","id":{},"pid":{},"tid":{},"ts":{},"name":"{}","cat":"{}"}})",
        "\n", phase, arrows_, process_, track, time(at), name, name);
  }

  struct ShownFrame {
    const Frame* frame = nullptr;
    std::string described;  // Empty until a slice needs it.
  };

  const Report& report_;
  const Timeline& timeline_;
  const std::uint64_t process_;
  const std::uint64_t start_;  // From the base of the file's times; wraps around before it.
  std::uint64_t& arrows_;
  OutputSink& sink_;
  std::vector<ShownFrame> frames_;  // By Frame::number.
  std::vector<std::vector<Timeline::Call>> outermost_;
};

// Returns the start of the first call.
std::uint64_t first_time(const Timeline& timeline) {
  std::optional<std::uint64_t> first;
  for (const Timeline::Thread& thread : timeline.threads)
    if (!thread.calls.empty())
      first = std::min(first.value_or(thread.calls[0].start), thread.calls[0].start);
  return first.value_or(0);
}

}  // namespace

void PerfettoWriter::begin(std::uint64_t unix_ns) {
  constexpr std::uint64_t kInterval = kBaseSeconds * kNanosecondsPerSecond;
  base_ = unix_ns / kInterval * kInterval;
  // The first event has no meaning; the others can begin with a comma.
  sink_.print(R"({{"displayTimeUnit":"ns","baseTimeNanoseconds":{},"traceEvents":[{})"
              R"({{"ph":"M","pid":0,"tid":0,"name":"trace_writer","args":{{"name":"optrace"}}}})",
              base_, "\n");
  begun_ = true;
}

void PerfettoWriter::add(const Report& report) {
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): value() throws without a timeline.
  const Timeline& timeline = report.timeline.value();
  if (!begun_) begin(timeline.start_unix_ns + first_time(timeline));
  std::uint64_t process = kFirstFreeId + timeline.process;
  while (!processes_.insert(process).second) ++process;  // Processes of several machines.
  ProcessWriter(report, process, base_, arrows_, sink_).write();
}

void PerfettoWriter::finish() {
  if (!begun_) begin(0);
  sink_.write("\n]}\n");
}

void to_perfetto(const Report& report, const FormatOptions&, OutputSink& sink) {
  PerfettoWriter writer(sink);
  writer.add(report);
  writer.finish();
}

}  // namespace optrace
