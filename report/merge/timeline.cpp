#include "report/merge/timeline.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "report/merge/recorded_work.h"
#include "tracer/trace/recording.h"

namespace optrace {
namespace {

// Identifies a forward op: RecordFunction's thread number and the sequence number.
using ForwardKey = std::pair<std::uint64_t, std::uint64_t>;
constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};
constexpr std::uint64_t kThreadNumber = 0xFFFF'FFFF;

// A dry run executes no kernel. Its work is as long as needed for a viewer to show it.
constexpr std::uint64_t kDryRunTime = 1;
// The clocks of a device and of the host may differ by this.
constexpr std::uint64_t kClockDifference = 1'000'000;

struct StartedWork {
  std::uint64_t device, stream;
  Timeline::Work work;
  Timeline::Moment launch;
};

// Reads the works of devices from a trace's events.
class WorkReader {
 public:
  WorkReader(const Trace& trace, Timeline& timeline) : trace_(trace), timeline_(timeline) {}

  void read() {
    for_each_event([this](Timeline::Moment at, const Event& event) {
      if (event.kind == EventKind::device_call) calls_[event.return_address] = at;
    });
    for_each_event([this](Timeline::Moment at, const Event& event) {
      if (event.kind == EventKind::device_activity) add_activity(at.time, event);
    });
    // Without a device there are only the requests.
    if (works_.empty()) {
      for_each_event([this](Timeline::Moment at, const Event& event) {
        if (event.kind == EventKind::call_record) add_request(at, event.what);
      });
    }
    put_on_lanes();
  }

 private:
  struct Kind {
    std::uint32_t number = kNone;  // kNone: the record describes no work of a stream.
    std::uint64_t device = 0, stream = 0;
  };

  template <typename Visit>
  void for_each_event(const Visit& visit) const {
    for (std::uint32_t i = 0; i < trace_.threads.size(); ++i)
      for (const Event& event : trace_.threads[i].events) visit({i, event.time}, event);
  }

  void add_activity(std::uint64_t time, const Event& event) {
    const auto activity = recording::unpack_activity(event.stack_pointer, event.return_address);
    const auto call = calls_.find(activity.call);
    const Kind& kind = kind_of(event.what);
    if (activity.age == 0 || call == calls_.end() || kind.number == kNone) return;
    const std::uint64_t start = time - std::min(time, activity.age);
    // Another tool may have given CUPTI a clock of its own.
    if (start + kClockDifference < call->second.time) return;
    works_.push_back(
        {kind.device, kind.stream, {kind.number, start, start + activity.duration}, call->second});
  }

  void add_request(Timeline::Moment at, std::uint32_t record) {
    const Kind& kind = kind_of(record);
    if (kind.number == kNone) return;
    works_.push_back({kind.device, kind.stream, {kind.number, at.time, at.time + kDryRunTime}, at});
  }

  const Kind& kind_of(std::uint32_t record) {
    const auto [place, is_new] = kinds_.try_emplace(record);
    if (is_new && record < trace_.op_records.size()) place->second = read_kind(record);
    return place->second;
  }

  Kind read_kind(std::uint32_t record) {
    std::optional<RecordedWork> work = recorded_work(read_op_record(trace_.op_records[record]));
    if (!work) return {};
    const auto number = static_cast<std::uint32_t>(timeline_.work_kinds.size());
    timeline_.work_kinds.push_back(std::move(work->kind));
    return {number, work->device, work->stream};
  }

  void put_on_lanes() {
    std::ranges::stable_sort(works_, [](const StartedWork& left, const StartedWork& right) {
      return std::tie(left.device, left.stream, left.work.start) <
             std::tie(right.device, right.stream, right.work.start);
    });
    std::size_t first = 0;  // The stream's first lane.
    for (const StartedWork& it : works_) {
      std::vector<Timeline::StreamLane>& lanes = timeline_.lanes;
      if (lanes.empty() || lanes.back().device != it.device || lanes.back().stream != it.stream)
        first = lanes.size();
      const auto is_free = [&](const Timeline::StreamLane& lane) {
        return lane.works.back().end <= it.work.start;
      };
      const auto free =
          std::find_if(lanes.begin() + static_cast<std::ptrdiff_t>(first), lanes.end(), is_free);
      const auto lane = static_cast<std::uint32_t>(free - lanes.begin());
      if (free == lanes.end())
        lanes.push_back({it.device, it.stream, static_cast<std::uint32_t>(lane - first), {}});
      lanes[lane].works.push_back(it.work);
      timeline_.launches.push_back({it.launch, {lane, it.work.start}});
    }
  }

  const Trace& trace_;
  Timeline& timeline_;
  std::unordered_map<std::uint64_t, Timeline::Moment> calls_;  // By number.
  std::unordered_map<std::uint32_t, Kind> kinds_;              // By record.
  std::vector<StartedWork> works_;
};

// An autograd node is made by the innermost op with its sequence number, the last to begin.
std::vector<Timeline::Arrow> backward_arrows(const Trace& trace) {
  std::map<ForwardKey, Timeline::Moment> forwards;
  std::vector<std::pair<ForwardKey, Timeline::Moment>> nodes;
  for (std::uint32_t i = 0; i < trace.threads.size(); ++i) {
    for (const Event& event : trace.threads[i].events) {
      if (event.stack_pointer == kNoSequence) continue;
      const Timeline::Moment at{i, event.time};
      if (event.kind == EventKind::op_begin)
        forwards[{event.return_address & kThreadNumber, event.stack_pointer}] = at;
      else if (event.kind == EventKind::node_begin)
        nodes.emplace_back(ForwardKey{event.return_address, event.stack_pointer}, at);
    }
  }
  std::vector<Timeline::Arrow> arrows;
  for (const auto& [key, node] : nodes) {
    const auto forward = forwards.find(key);
    if (forward != forwards.end() && forward->second.time <= node.time)
      arrows.push_back({forward->second, node});
  }
  return arrows;
}

}  // namespace

bool has_timeline(const Trace& trace) {
  return std::ranges::any_of(trace.threads,
                             [](const ThreadRecord& thread) { return !thread.events.empty(); });
}

Timeline timeline_of(const Trace& trace, const CountedTimeline& counted,
                     const std::vector<std::uint32_t>& frame_numbers) {
  Timeline timeline;
  const ReportProcess& process = trace.meta.process;
  timeline.process = process.id.value_or(trace.threads.empty() ? 0 : trace.threads[0].id);
  timeline.rank = process.rank;
  timeline.start_unix_ns = trace.meta.start_unix_ns;
  for (std::size_t i = 0; i < trace.threads.size(); ++i) {
    Timeline::Thread& thread = timeline.threads.emplace_back();
    thread.id = trace.threads[i].id;
    for (const PathCall& call : counted.calls[i]) {
      const std::uint32_t frame = call.path == kNone ? 0 : frame_numbers[call.path];
      if (frame != 0) thread.calls.push_back({frame, call.start, call.end});
    }
  }
  WorkReader(trace, timeline).read();
  timeline.backwards = backward_arrows(trace);
  return timeline;
}

}  // namespace optrace
