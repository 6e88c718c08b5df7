#include "src/commands/reports/job_traces.h"

#include <chrono>
#include <cstddef>
#include <deque>
#include <future>
#include <utility>

#include <fmt/core.h>

#include "platform/error.h"
#include "present/progress_display.h"
#include "report/job/trace_merge.h"

namespace optrace {
namespace {

// Reading a trace takes about as long as adding it to the others. A trace takes some 100 MB.
constexpr std::size_t kReadAhead = 2;

// Reads files in the background. The memory of a trace that was given back is used again: taking it
// from the system takes as long as reading.
class TraceReader {
 public:
  explicit TraceReader(const std::vector<std::string>& files) : files_(files) {
    while (reads_.size() < kReadAhead && next_ < files_.size()) start({});
  }

  // Returns the next trace.
  Trace take() {
    Trace trace = reads_.front().get();
    reads_.pop_front();
    return trace;
  }

  void give_back(Trace trace) {
    if (next_ < files_.size()) start(std::move(trace));
  }

 private:
  void start(Trace trace) {
    reads_.push_back(std::async(
        std::launch::async,
        [](const std::string& file, Trace memory) {
          read_trace(file, TraceParts::without_events, memory);
          return memory;
        },
        files_[next_++], std::move(trace)));
  }

  const std::vector<std::string>& files_;
  std::size_t next_ = 0;
  std::deque<std::future<Trace>> reads_;
};

}  // namespace

Trace merge_trace_files(const std::vector<std::string>& files) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kRedraw = std::chrono::milliseconds(100);
  ProgressDisplay display;
  Clock::time_point shown = Clock::now();
  TraceReader reader(files);
  TraceMerge merged;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (const Clock::time_point now = Clock::now(); now - shown >= kRedraw) {
      display.show_step(fmt::format("optrace: {} of {} traces read", i, files.size()));
      shown = now;
    }
    Trace trace = reader.take();
    try {
      merged.add(trace);
    } catch (const Error& error) {
      throw Error(error.status(), fmt::format("cannot merge {}: {}", files[i], error.what()),
                  error.remedy());
    }
    reader.give_back(std::move(trace));
  }
  return merged.take();
}

Trace merge_traces(std::span<const Trace> traces) {
  TraceMerge merged;
  for (const Trace& trace : traces) merged.add(trace);
  return merged.take();
}

}  // namespace optrace
