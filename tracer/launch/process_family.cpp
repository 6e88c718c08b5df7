#include "tracer/launch/process_family.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>

#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "platform/process/child_process.h"
#include "tracer/collect/collector.h"
#include "tracer/connection/protocol.h"
#include "tracer/connection/sealed_copy.h"
#include "tracer/connection/target_description.h"
#include "tracer/launch/process_watch.h"

namespace optrace {

namespace order = protocol::order;
namespace message = protocol::message;
using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kEndedBefore = "it or the program ended before its recording had begun";
// For so long after a process waited for its reader, it is expected to do so again.
constexpr milliseconds kAwaitedFor{50};

std::string command_line(const ProgramRequest& request) {
  std::string line = "python";
  for (const std::string& argument : request.arguments) {
    const std::size_t end = argument.find('\n');  // CODE may have several lines.
    line +=
        " " + shell_word(end == std::string::npos ? argument : argument.substr(0, end) + " ...");
  }
  return line;
}

void add(CollectorProgress& sum, const CollectorProgress& more) {
  sum.events += more.events;
  sum.ops += more.ops;
  sum.paths += more.paths;
  sum.lost += more.lost;
}

}  // namespace

ProcessFamily::ProcessFamily(const ProgramRequest& request, SharedAgents& agents, pid_t program,
                             ProgramConnection connection, ProcessMessage hello)
    : request_(request),
      agents_(agents),
      program_(program),
      first_(connection.process()),
      thread_([this, mine = std::move(connection), message = std::move(hello)]() mutable {
        run(std::move(mine), std::move(message));
      }) {}

bool ProcessFamily::has(pid_t process) const {
  const std::lock_guard lock(mutex_);
  return process == first_ || std::find(forked_.begin(), forked_.end(), process) != forked_.end();
}

void ProcessFamily::receive(ProgramConnection connection, ProcessMessage message) {
  const pid_t process = connection.process();
  const bool known = has(process);
  const std::lock_guard lock(mutex_);
  if (!message.ended && !known) forked_.push_back(process);
  received_.emplace_back(std::move(connection), std::move(message));
  woken_.notify_one();
}

void ProcessFamily::close() {
  stop_building();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    woken_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

std::optional<UnreachedWindow> ProcessFamily::unreached() const {
  if (!waits_) return std::nullopt;
  return UnreachedWindow{.is_main = first_ == program_, .steps = steps_};
}

void ProcessFamily::add_to(ProgramProgress& sum) const {
  const std::lock_guard lock(mutex_);
  sum.processes += 1 + forked_.size();
  sum.counted.events += counted_.events;
  sum.counted.ops += counted_.ops;
  sum.counted.paths += counted_.paths;
  sum.counted.lost += counted_.lost;
  if (!step_.empty()) sum.step = step_;
}

// Makes thread_ look after its processes.
void ProcessFamily::wake() {
  const std::lock_guard lock(mutex_);
  called_ = true;
  woken_.notify_one();
}

void ProcessFamily::show_step(std::string_view step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

void ProcessFamily::run(ProgramConnection connection, ProcessMessage hello) {
  const std::jthread background([this](const std::stop_token& stop) {
    read_in_background(processes_, [this] { wake(); }, stop);
  });
  accept(std::move(connection), std::move(hello), true);
  while (true) {
    std::vector<std::pair<ProgramConnection, ProcessMessage>> received;
    bool closing = false;
    {
      std::unique_lock lock(mutex_);
      const auto called = [this] { return closing_ || called_ || !received_.empty(); };
      if (processes_.list.empty())
        woken_.wait(lock, called);
      else
        woken_.wait_for(
            lock, Clock::now() < awaited_until_ ? Collector::kAwaitedPause : kWatchPause, called);
      received = std::move(received_);
      received_.clear();
      called_ = false;
      closing = closing_;
    }
    for (auto& [from, message] : received)
      if (message.ended)
        handle_exit(from, message);
      else
        accept(std::move(from), std::move(message), false);
    drain(closing);
    if (closing && processes_.list.empty()) return;
  }
}

// Makes a process record. A process that can't be traced continues without tracing.
void ProcessFamily::accept(ProgramConnection connection, ProcessMessage hello, bool first) {
  if (!first && !meta_) return;  // Its family can't be traced.
  auto process = std::make_unique<RecordingProcess>(connection.process(), hello.rank);
  bool records = false;
  fail_member_on_error(*process,
                       [&] { records = start_recording(connection, hello, first, *process); });
  const std::lock_guard lock(processes_.mutex);
  if (records) processes_.list.push_back(std::move(process));
}

// Returns false if there is nothing to trace (yet).
bool ProcessFamily::start_recording(ProgramConnection& connection, const ProcessMessage& hello,
                                    bool first, RecordingProcess& process) {
  if (request_.only_compilations) {
    if (first && !prepare(connection, hello)) return false;
    if (meta_) process.meta = *meta_;
    connection.send(line_of(order::kWatch));
    return true;
  }
  const Descriptor region = sealed_region(region_bytes(request_.target_bytes));
  if (first && !prepare(connection, hello)) return false;
  waits_ = first && request_.window && request_.window->first > 1;
  if (waits_) return false;  // The process connects again when its window begins.
  if (meta_) process.meta = *meta_;
  // A forked process has the probes of its parent, unless the parent's are to be removed.
  const bool placed = !first && !request_.window;
  connection.send(placed ? line_of(order::kRecord) : line_of(orders_.record(request_)),
                  {&region, 1});
  // Others, which record already, must not wait for a process that is stopped.
  if (first) wait_for_message(connection);
  receive_recording(connection, process.meta);
  {
    const std::lock_guard lock(processes_.mutex);
    process.collector = std::make_unique<Collector>(region.get(), session_, request_.collector);
  }
  connection.send(line_of(order::kStart));
  return true;
}

// Plans while the process still imports torch. Returns false if torch could not be imported:
// there is nothing to trace then, and this is no error of optrace.
bool ProcessFamily::prepare(ProgramConnection& connection, const ProcessMessage& hello) {
  std::exception_ptr failure;
  try {
    if (request_.only_compilations)
      orders_.plan_nothing(hello.torch);
    else
      orders_.plan(hello.torch, [this](const std::filesystem::path& torch_folder, bool devices) {
        return find_agents(torch_folder, devices);
      });
  } catch (const std::exception&) {
    failure = std::current_exception();  // Rethrown once torch is imported.
  }
  show_step("");
  std::optional<TargetMessage> imported;
  try {
    wait_for_message(connection);
    imported = connection.receive(message::kImported, kAnswerLimit);
  } catch (const Error&) {
    return false;
  }
  if (failure) std::rethrow_exception(failure);
  meta_ = orders_.meta(*imported, command_line(request_));
  return true;
}

// Waits for a process's message for as long as the program runs: a busy machine may leave it no
// processor.
void ProcessFamily::wait_for_message(const ProgramConnection& connection) const {
  constexpr milliseconds kLook{200};
  while (!connection.wait(kLook)) {
    const std::lock_guard lock(mutex_);
    if (closing_) throw Error(ExitStatus::failed, kEndedBefore, "");
  }
}

TargetAgents ProcessFamily::find_agents(const std::filesystem::path& torch_folder, bool devices) {
  const auto go_on = [this] {
    if (!building_.stop_requested()) return;
    throw Error(ExitStatus::interrupted, "it ended, or a signal came, while it was compiled for",
                "Run the command again when ready.");
  };
  return agents_.get(torch_folder, devices,
                     {[this](std::string_view step) { show_step(step); }, go_on});
}

// Reads the events of processes that have ended or wait for room, and leaves the others to the
// background thread.
void ProcessFamily::drain(bool closing) {
  for (std::size_t i = 0; i < processes_.list.size();) {
    RecordingProcess& process = *processes_.list[i];
    if (process.collector) process.collector->send_heartbeat();
    // Check first: everything recorded before the end can then be read.
    bool over = process.watch.ended() || closing;
    const bool awaited = process.collector && process.collector->is_awaited();
    if (!over && !process.failed && !awaited) {
      ++i;
      continue;
    }
    const std::lock_guard lock(processes_.mutex);
    over = over || process.failed;
    fail_member_on_error(process, [&] { read_process(process, over); });
    if (over || !process.collector)
      processes_.list.erase(processes_.list.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  sum_progress();
}

void ProcessFamily::read_process(RecordingProcess& process, bool over) {
  if (process.failure) std::rethrow_exception(process.failure);
  if (!process.collector) {
    throw Error(ExitStatus::failed, "it ended without telling what was compiled",
                "A program tells it when it ends by itself, not when it is killed or calls "
                "os._exit().");
  }
  process.collector->drain();
  awaited_until_ = Clock::now() + kAwaitedFor;
  if (!over) return;
  process.collector->finish();
  conclude(process);
}

void ProcessFamily::sum_progress() {
  const std::unique_lock reading(processes_.mutex, std::try_to_lock);
  if (!reading) return;  // The next time will do.
  CollectorProgress sum = finished_;
  for (const auto& process : processes_.list) add(sum, process->progress());
  const std::lock_guard lock(mutex_);
  counted_ = sum;
}

// Handles an orderly end of the process or of its window, in which the process still answers.
void ProcessFamily::handle_exit(ProgramConnection& connection, const ProcessMessage& message) {
  const std::lock_guard lock(processes_.mutex);
  const pid_t id = connection.process();
  if (id == first_) steps_ = message.steps;
  const auto found = std::find_if(processes_.list.begin(), processes_.list.end(),
                                  [id](const auto& one) { return one->id == id; });
  if (found == processes_.list.end()) return;
  RecordingProcess& process = **found;
  process.steps = message.steps;
  fail_member_on_error(process, [&] {
    const std::vector<std::string> ops = process.finish();
    try {
      receive_tables(connection, ops, process.meta);
    } catch (const Error&) {
      if (request_.only_compilations) throw;
      // The process was killed at this moment: only the tables are missing.
      process.meta.warnings.push_back("The dispatcher's choices for other keys are unknown.");
    }
    conclude(process);
  });
  processes_.list.erase(found);
}

void ProcessFamily::conclude(RecordingProcess& process) {
  TracedProcess result;
  result.counted = process.progress();
  add(finished_, result.counted);
  process.meta.process = {static_cast<std::uint64_t>(process.id), process.rank};
  if (request_.window)
    process.meta.steps = {request_.window->first, request_.window->count, process.steps};
  result.trace = process.take();
  complete_trace(*result.trace, request_.dry_run ? &*request_.dry_run : nullptr);
  finish(process, std::move(result));
}

void ProcessFamily::finish(const RecordingProcess& process, TracedProcess result) {
  result.id = process.id;
  result.is_main = process.id == program_;
  result.rank = process.rank;
  done_.push_back(std::move(result));
}

// Runs a step. A failure ends the tracing of this process only.
void ProcessFamily::fail_member_on_error(RecordingProcess& process,
                                         const std::function<void()>& step) {
  TracedProcess failed;
  try {
    step();
    return;
  } catch (const ConnectionEnded& error) {
    // A process that ends closes its connections a moment before.
    const bool ended = process.watch.ends_within(std::chrono::seconds(1));
    failed.problem = ended ? kEndedBefore : error.what();
    failed.remedy = ended ? "" : error.remedy();
  } catch (const Error& error) {
    failed.problem = error.what();
    failed.remedy = error.remedy();
  } catch (const std::exception& error) {
    failed.problem = error.what();
    failed.remedy = kReport;
  }
  process.collector.reset();
  finish(process, std::move(failed));
}

}  // namespace optrace
