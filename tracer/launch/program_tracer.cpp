#include "tracer/launch/program_tracer.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu/build/activity_agent.h"
#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "platform/files/installation.h"
#include "platform/files/private_folder.h"
#include "platform/process/child_process.h"
#include "platform/process/interrupt.h"
#include "platform/process/signal_forwarder.h"
#include "pytorch/installed/installed_torch.h"
#include "tracer/connection/device_facts.h"
#include "tracer/connection/program_socket.h"
#include "tracer/connection/protocol.h"
#include "tracer/connection/sealed_copy.h"
#include "tracer/connection/target_agents.h"
#include "tracer/connection/target_description.h"
#include "tracer/connection/tracing_orders.h"
#include "tracer/probes/probe_session.h"

namespace optrace {
namespace {

namespace key = protocol::key;
namespace order = protocol::order;
namespace message = protocol::message;
using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxProcesses = 4096;
// How often a family looks for the end of its processes. All else wakes it, but the background
// thread may get no processor for long.
constexpr milliseconds kWatchPause{8};
// The background thread reads less often while a delay shows that others want the processors.
constexpr milliseconds kTolerableDelay{1};
constexpr milliseconds kLongestPause{64};
constexpr const char* kEndedBefore = "it or the program ended before its recording had begun";
// For so long after a process waited for its reader, it is expected to do so again.
constexpr milliseconds kAwaitedFor{50};

/// Returns for how long this thread has had a processor.
Clock::duration thread_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Detects the end of a process, whoever its parent is.
class ProcessWatch {
 public:
  explicit ProcessWatch(pid_t process)
      : process_(process), end_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))) {}

  bool ended() const {
    if (!end_) return ::kill(process_, 0) != 0 && errno == ESRCH;  // Linux before 5.3.
    pollfd watched{end_.get(), POLLIN, 0};
    return ::poll(&watched, 1, 0) > 0;
  }

  /// Negative if the system has no pidfds.
  int descriptor() const { return end_.get(); }

  /// Returns true if the process ends within this time.
  bool ends_within(milliseconds limit) const {
    for (const auto end = Clock::now() + limit; !ended(); std::this_thread::sleep_for(kWatchPause))
      if (Clock::now() >= end) return false;
    return true;
  }

 private:
  pid_t process_;
  Descriptor end_;
};

/// Returns true if a process that has ended, but has not been waited for, has waited for others:
/// its statistics then include their page faults (cminflt, the 11th field of proc_pid_stat(5)).
bool waited_for_children(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  if (!std::getline(file, line)) return false;
  // The second field, a name in parentheses, may contain anything.
  std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  constexpr int kFieldsBetween = 8;
  std::string field;
  for (int i = 0; i < kFieldsBetween; ++i) rest >> field;
  std::uint64_t faults = 0;
  return rest >> faults && faults != 0;
}

std::string command_line(const ProgramRequest& request) {
  std::string line = "python";
  for (const std::string& argument : request.arguments) {
    const std::size_t end = argument.find('\n');  // CODE may have several lines.
    line +=
        " " + shell_word(end == std::string::npos ? argument : argument.substr(0, end) + " ...");
  }
  return line;
}

std::optional<std::uint64_t> steps_in(const Json& message) {
  const auto found = message.find(key::kSteps);
  if (found == message.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

std::optional<std::uint64_t> rank_in(const Json& message) {
  const auto found = message.find(key::kRank);
  if (found == message.end() || !found->is_string()) return std::nullopt;
  return rank_number(found->get_ref<const std::string&>());
}

/// A process that imported torch, and the processes forked from it afterwards. These have its
/// probes, so one session plans for all of them. All work is done on a thread of the family's own.
class ProcessFamily {
 public:
  ProcessFamily(const ProgramRequest& request, SharedAgents& agents, pid_t program,
                ProgramConnection connection, Json greeting)
      : request_(request),
        agents_(agents),
        program_(program),
        first_(connection.process()),
        thread_([this, mine = std::move(connection), said = std::move(greeting)]() mutable {
          run(std::move(mine), std::move(said));
        }) {}

  ~ProcessFamily() { close(); }
  ProcessFamily(const ProcessFamily&) = delete;
  ProcessFamily& operator=(const ProcessFamily&) = delete;

  /// Returns true if the process is in the family, ended or not.
  bool has(pid_t process) const {
    const std::lock_guard lock(mutex_);
    return process == first_ || std::find(forked_.begin(), forked_.end(), process) != forked_.end();
  }

  /// Takes the first message of a process of the family: it ends, or it was forked.
  void hear(ProgramConnection connection, Json message) {
    const pid_t process = connection.process();
    const bool known = has(process);
    const std::lock_guard lock(mutex_);
    if (message[key::kMessage] == message::kProgram && !known) forked_.push_back(process);
    heard_.emplace_back(std::move(connection), std::move(message));
    woken_.notify_one();
  }

  /// Ends the compilers that the first process waits for, if any. It then continues untraced.
  void stop_building() { building_.request_stop(); }

  /// Reads the remaining data of all processes, whether they still run or not.
  void close() {
    stop_building();
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      woken_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

  /// Returns the results. Call after close().
  std::vector<TracedProcess> take() { return std::move(done_); }

  /// Returns the process that ended before its window, if any. Call after close().
  std::optional<UnreachedWindow> unreached() const {
    if (!waits_) return std::nullopt;
    return UnreachedWindow{.is_main = first_ == program_, .steps = steps_};
  }

  void add_to(ProgramProgress& sum) const {
    const std::lock_guard lock(mutex_);
    sum.processes += 1 + forked_.size();
    sum.counted.events += counted_.events;
    sum.counted.ops += counted_.ops;
    sum.counted.paths += counted_.paths;
    sum.counted.lost += counted_.lost;
    if (!step_.empty()) sum.step = step_;
  }

 private:
  /// A recording process.
  struct Member {
    Member(const ProgramConnection& connection, std::optional<std::uint64_t> its_rank)
        : id(connection.process()), rank(its_rank), watch(id) {}

    pid_t id;
    std::optional<std::uint64_t> rank;
    ProcessWatch watch;
    /// Null until the process shares its memory, and if only compilations are recorded.
    std::unique_ptr<Collector> collector;
    std::optional<std::uint64_t> steps;  ///< The steps that it has completed, once it says so.
    Json meta;
    std::exception_ptr failure;        ///< Why the background thread can't read its events.
    std::atomic<bool> failed = false;  ///< True once `failure` is set.

    CollectorProgress progress() const {
      return collector ? collector->progress() : CollectorProgress{};
    }

    /// Reads everything that the process has recorded. Returns the ops.
    std::vector<std::string> finish() {
      if (!collector) return {};
      collector->finish();
      return collector->ops();
    }

    Trace take() {
      if (collector) return collector->take(std::move(meta));
      Trace trace;
      trace.meta = std::move(meta);
      return trace;
    }
  };

  /// Reads events while a processor has nothing else to do, so that the program has the processors
  /// as long as there is room for its events. Its threads never wait for this one: thread_ reads
  /// what they wait for.
  ///
  /// The thread has no low priority: beside busy programs, it would get no processor for seconds
  /// while it holds members_mutex_, which thread_ needs.
  void read_in_background(const std::stop_token& stop) {
    const sched_param no_priority{};
    ::sched_setscheduler(0, SCHED_BATCH, &no_priority);  // Interrupts nobody when it wakes up.
    milliseconds pause = Collector::kPause;
    while (!stop.stop_requested()) {
      const Clock::duration ran_before = thread_time();
      const Clock::time_point begin = Clock::now();
      bool more = false;
      for (std::size_t i = 0;; ++i) {
        // Another thread may wait for the end of a batch.
        const std::lock_guard lock(members_mutex_);
        if (i >= members_.size()) break;
        Member& member = *members_[i];
        if (member.failed || !member.collector) continue;
        // Others than the reader wait for what takes long, and should not wait for this thread.
        if (member.collector->is_awaited()) {
          wake();
          continue;
        }
        try {
          more = member.collector->drain(Collector::kBatch) >= Collector::kBatch || more;
        } catch (...) {
          member.failure = std::current_exception();
          member.failed = true;
          wake();
        }
      }
      const bool pausing = !more || pause > Collector::kPause;
      if (pausing) std::this_thread::sleep_for(pause);
      const Clock::duration delay =
          Clock::now() - begin - (thread_time() - ran_before) - (pausing ? pause : milliseconds(0));
      pause = delay > kTolerableDelay ? std::min(2 * pause, kLongestPause) : Collector::kPause;
    }
  }

  /// Makes thread_ look after its processes.
  void wake() {
    const std::lock_guard lock(mutex_);
    called_ = true;
    woken_.notify_one();
  }

  void run(ProgramConnection connection, Json greeting) {
    const std::jthread background(
        [this](const std::stop_token& stop) { read_in_background(stop); });
    admit(std::move(connection), std::move(greeting), true);
    while (true) {
      std::vector<std::pair<ProgramConnection, Json>> heard;
      bool closing = false;
      {
        std::unique_lock lock(mutex_);
        const auto called = [this] { return closing_ || called_ || !heard_.empty(); };
        if (members_.empty())
          woken_.wait(lock, called);
        else
          woken_.wait_for(
              lock, Clock::now() < awaited_until_ ? Collector::kAwaitedPause : kWatchPause, called);
        heard = std::move(heard_);
        heard_.clear();
        called_ = false;
        closing = closing_;
      }
      for (auto& [from, message] : heard) {
        if (message[key::kMessage] == message::kEnded)
          farewell(from, message);
        else
          admit(std::move(from), std::move(message), false);
      }
      drain(closing);
      if (closing && members_.empty()) return;
    }
  }

  /// Makes a process record. A process that can't be traced continues without tracing.
  void admit(ProgramConnection connection, Json greeting, bool first) {
    if (!first && meta_.is_null()) return;  // Its family can't be traced.
    auto member = std::make_unique<Member>(connection, rank_in(greeting));
    bool admitted = false;
    guarded(*member, [&] {
      if (request_.only_compilations) {
        if (first && !prepare(connection, greeting)) return;
        member->meta = meta_;
        connection.send({{key::kOrder, order::kWatch}});
        admitted = true;
        return;
      }
      if (request_.tensors) orders_.keep_tensors(journal_bytes(request_.target_bytes));
      const Descriptor region = sealed_region(region_bytes(request_.target_bytes));
      if (first && !prepare(connection, greeting)) return;
      waits_ = first && request_.window && request_.window->first > 1;
      if (waits_) return;  // The process connects again when its window begins.
      member->meta = meta_;
      // A forked process has the probes of its parent, unless the parent's are to be removed.
      connection.send(
          first || request_.window ? orders_.record() : Json{{key::kOrder, order::kRecord}},
          {&region, 1});
      // Others, which record already, must not wait for a process that is stopped.
      if (first) wait_for_message(connection);
      receive_recording(connection, member->meta);
      {
        const std::lock_guard lock(members_mutex_);
        member->collector = std::make_unique<Collector>(region.get(), session_, request_.collector);
      }
      connection.send({{key::kOrder, order::kStart}});
      admitted = true;
    });
    const std::lock_guard lock(members_mutex_);
    if (admitted) members_.push_back(std::move(member));
  }

  /// Plans while the process still imports torch. Returns false if torch could not be imported:
  /// there is nothing to trace then, and this is no error of optrace.
  bool prepare(ProgramConnection& connection, const Json& greeting) {
    std::exception_ptr failure;
    try {
      if (request_.only_compilations)
        orders_.plan_nothing(greeting);
      else
        orders_.plan(greeting, [this](const std::filesystem::path& torch_folder, bool devices) {
          return find_agents(torch_folder, devices);
        });
    } catch (const std::exception&) {
      failure = std::current_exception();  // Rethrown once torch is imported.
    }
    show_step("");
    Json imported;
    try {
      wait_for_message(connection);
      imported = connection.receive(message::kImported, kAnswerLimit);
    } catch (const Error&) {
      return false;
    }
    if (failure) std::rethrow_exception(failure);
    orders_.limit_returns(request_.returns_per_site);
    meta_ = orders_.meta(std::move(imported), command_line(request_));
    return true;
  }

  /// Waits for a process's message for as long as the program runs: a busy machine may leave it no
  /// processor.
  void wait_for_message(const ProgramConnection& connection) const {
    constexpr milliseconds kLook{200};
    while (!connection.wait(kLook)) {
      const std::lock_guard lock(mutex_);
      if (closing_) throw Error(ExitStatus::failed, kEndedBefore, "");
    }
  }

  TargetAgents find_agents(const std::filesystem::path& torch_folder, bool devices) {
    const auto go_on = [this] {
      if (!building_.stop_requested()) return;
      throw Error(ExitStatus::interrupted, "it ended, or a signal came, while it was compiled for",
                  "Run the command again when ready.");
    };
    return agents_.get(torch_folder, devices,
                       {[this](std::string_view step) { show_step(step); }, go_on});
  }

  void show_step(std::string_view step) {
    const std::lock_guard lock(mutex_);
    step_ = step;
  }

  /// Handles an orderly end of the process or of its window, in which the process still answers.
  void farewell(ProgramConnection& connection, const Json& message) {
    const std::lock_guard lock(members_mutex_);
    const pid_t process = connection.process();
    const std::optional<std::uint64_t> steps = steps_in(message);
    if (process == first_) steps_ = steps;
    const auto found = std::find_if(members_.begin(), members_.end(),
                                    [process](const auto& one) { return one->id == process; });
    if (found == members_.end()) return;
    Member& member = **found;
    member.steps = steps;
    guarded(member, [&] {
      const std::vector<std::string> ops = member.finish();
      try {
        connection.send({{key::kOrder, order::kTables}, {key::kOps, ops}});
        add_tables(member.meta, connection.receive(message::kTables, kAnswerLimit));
      } catch (const Error&) {
        if (request_.only_compilations) throw;
        // The process was killed at this moment: only the tables are missing.
        member.meta["warnings"].push_back("The dispatcher's choices for other keys are unknown.");
      }
      conclude(member);
    });
    members_.erase(found);
  }

  /// Reads the events of processes that have ended or wait for room, and leaves the others to the
  /// background thread.
  void drain(bool closing) {
    for (std::size_t i = 0; i < members_.size();) {
      Member& member = *members_[i];
      if (member.collector) member.collector->send_heartbeat();
      // Check first: everything recorded before the end can then be read.
      bool over = member.watch.ended() || closing;
      const bool awaited = member.collector && member.collector->is_awaited();
      if (!over && !member.failed && !awaited) {
        ++i;
        continue;
      }
      const std::lock_guard lock(members_mutex_);
      over = over || member.failed;
      guarded(member, [&] {
        if (member.failure) std::rethrow_exception(member.failure);
        if (!member.collector) {
          throw Error(ExitStatus::failed, "it ended without telling what was compiled",
                      "A program tells it when it ends by itself, not when it is killed or calls "
                      "os._exit().");
        }
        member.collector->drain();
        awaited_until_ = Clock::now() + kAwaitedFor;
        if (!over) return;
        member.collector->finish();
        conclude(member);
      });
      if (over || !member.collector)
        members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(i));
      else
        ++i;
    }
    const std::unique_lock reading(members_mutex_, std::try_to_lock);
    if (!reading) return;  // The next time will do.
    CollectorProgress sum = finished_;
    for (const auto& member : members_) add(sum, member->progress());
    const std::lock_guard lock(mutex_);
    counted_ = sum;
  }

  void conclude(Member& member) {
    TracedProcess process;
    process.counted = member.progress();
    add(finished_, process.counted);
    member.meta["process"] = {{"id", static_cast<std::uint64_t>(member.id)}};
    if (member.rank) member.meta["process"]["rank"] = *member.rank;
    if (request_.window) {
      member.meta["steps"] = {{"first", request_.window->first}, {"count", request_.window->count}};
      if (member.steps) member.meta["steps"]["ended_after"] = *member.steps;
    }
    process.trace = member.take();
    keep_names_that_occur(*process.trace);
    if (request_.dry_run) describe_dry_run(*request_.dry_run, *process.trace);
    add_activity_warnings(*process.trace);
    finish(member, std::move(process));
  }

  static void add(CollectorProgress& sum, const CollectorProgress& more) {
    sum.events += more.events;
    sum.ops += more.ops;
    sum.paths += more.paths;
    sum.lost += more.lost;
  }

  void finish(const Member& member, TracedProcess process) {
    process.id = member.id;
    process.is_main = member.id == program_;
    process.rank = member.rank;
    done_.push_back(std::move(process));
  }

  /// Runs a step. A failure ends the tracing of this process only.
  template <typename Step>
  void guarded(Member& member, const Step& step) {
    TracedProcess failed;
    try {
      step();
      return;
    } catch (const ConnectionEnded& error) {
      // A process that ends closes its connections a moment before.
      const bool ended = member.watch.ends_within(std::chrono::seconds(1));
      failed.problem = ended ? kEndedBefore : error.what();
      failed.remedy = ended ? "" : error.remedy();
    } catch (const Error& error) {
      failed.problem = error.what();
      failed.remedy = error.remedy();
    } catch (const std::exception& error) {
      failed.problem = error.what();
      failed.remedy = kReport;
    }
    member.collector.reset();
    finish(member, std::move(failed));
  }

  const ProgramRequest& request_;
  SharedAgents& agents_;
  const pid_t program_;
  const pid_t first_;
  std::stop_source building_;

  // Guards the members from woken_ to closing_, which both threads use.
  mutable std::mutex mutex_;
  std::condition_variable woken_;
  std::vector<pid_t> forked_;
  std::vector<std::pair<ProgramConnection, Json>> heard_;
  CollectorProgress counted_;
  std::string step_;  // What the first process waits for.
  bool called_ = false;
  bool closing_ = false;

  // Guards the collectors of the members, which thread_ and the background thread use. Only thread_
  // adds and removes members.
  std::mutex members_mutex_;

  // Used only by thread_ until it has ended.
  PrivateFolder scratch_;
  ProbeSession session_{scratch_.path(), request_.results};
  TracingOrders orders_{session_, request_.probes, request_.dry_run ? &*request_.dry_run : nullptr};
  Json meta_;                           // Null until there are plans and torch is imported.
  bool waits_ = false;                  // True until a window begins.
  std::optional<std::uint64_t> steps_;  // The steps that first_ has completed, once it says so.
  std::vector<std::unique_ptr<Member>> members_;
  CollectorProgress finished_;
  Clock::time_point awaited_until_;
  std::vector<TracedProcess> done_;

  std::thread thread_;  // The last member: it uses all others.
};

/// All connections, and the families that their processes belong to.
class TracedProgram {
 public:
  TracedProgram(const ProgramRequest& request, SharedAgents& agents, ProgramListener listener,
                pid_t program)
      : request_(request), agents_(agents), listener_(std::move(listener)), program_(program) {}

  /// Accepts connections and reads messages without waiting. Closes connections with invalid
  /// messages.
  void listen() {
    try {
      while (std::optional<ProgramConnection> connection =
                 listener_ ? listener_->accept() : std::nullopt) {
        if (strangers_.size() < kMaxProcesses) strangers_.push_back(std::move(*connection));
      }
    } catch (const Error& error) {
      complain(error);
    }
    for (std::size_t i = 0; i < strangers_.size();) {
      try {
        std::optional<Json> message = strangers_[i].poll();
        if (!message) {
          ++i;
          continue;
        }
        introduce(std::move(strangers_[i]), std::move(*message));
      } catch (const Error& error) {
        complain(error);
      }
      strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  /// Adds the descriptors that have data when listen() has something to do.
  void add_descriptors(std::vector<pollfd>& watched) const {
    if (listener_) watched.push_back({listener_->descriptor(), POLLIN, 0});
    for (const ProgramConnection& stranger : strangers_) {
      watched.push_back({stranger.descriptor(), POLLIN, 0});
    }
  }

  ProgramProgress progress() const {
    ProgramProgress sum;
    for (const auto& family : families_) family->add_to(sum);
    return sum;
  }

  void stop_building() {
    for (const auto& family : families_) family->stop_building();
  }

  void finish(ProgramResult& result) {
    stop_building();
    // A process that connects from now on, or has just done so, must not wait.
    listener_.reset();
    strangers_.clear();
    std::vector<TracedProcess>& all = result.processes;
    all = std::move(failed_);
    for (const auto& family : families_) {
      family->close();
      for (TracedProcess& process : family->take()) all.push_back(std::move(process));
      if (const auto unreached = family->unreached()) result.unreached.push_back(*unreached);
    }
    // The order in which several processes connected is arbitrary.
    std::ranges::stable_sort(all, {}, [](const TracedProcess& one) {
      return std::tuple(!one.is_main, one.rank, one.id);
    });
  }

 private:
  void introduce(ProgramConnection connection, Json message) {
    const Json kind = message[key::kMessage];
    const bool forked = message.value(key::kForked, Json()) == true;
    const auto parent = message.value(key::kParent, Json());
    const pid_t relative = kind == message::kEnded ? connection.process()
                           : parent.is_number_unsigned()
                               ? static_cast<pid_t>(parent.get<std::uint64_t>())
                               : 0;
    // The youngest first: a process that called exec is in two families.
    for (auto family = families_.rbegin(); family != families_.rend(); ++family) {
      if ((kind == message::kEnded || forked) && (*family)->has(relative)) {
        (*family)->hear(std::move(connection), std::move(message));
        return;
      }
    }
    if (kind != message::kProgram || forked || families_.size() >= kMaxProcesses) return;
    families_.push_back(std::make_unique<ProcessFamily>(request_, agents_, program_,
                                                        std::move(connection), std::move(message)));
  }

  void complain(const Error& error) {
    if (!failed_.empty()) return;  // One is enough.
    TracedProcess& process = failed_.emplace_back();
    process.problem = error.what();
    process.remedy = error.remedy();
  }

  const ProgramRequest& request_;
  SharedAgents& agents_;
  std::optional<ProgramListener> listener_;  // Empty after finish().
  pid_t program_;
  std::vector<ProgramConnection> strangers_;
  std::vector<std::unique_ptr<ProcessFamily>> families_;
  std::vector<TracedProcess> failed_;
};

ChildProcess::Options how_to_start(const ProgramRequest& request,
                                   const std::filesystem::path& socket) {
  ChildProcess::Options options;
  options.arguments = request.arguments;
  options.arguments.insert(options.arguments.begin(), request.python.string());
  options.own_process_group = false;
  options.keeps_ignored = true;
  if (request.output_to_error) options.descriptors.emplace_back(STDERR_FILENO, STDOUT_FILENO);
  std::string path = std::filesystem::canonical(data_folder() / "target/run_site").string();
  options.environment.emplace_back("OPTRACE_RUN", socket.string());
  if (const char* before = std::getenv("PYTHONPATH"); before != nullptr) {
    options.environment.emplace_back("OPTRACE_RUN_PYTHONPATH", before);
    // An empty entry would mean the working folder; an empty variable has no effect.
    if (*before != '\0') path.append(":").append(before);
  }
  options.environment.emplace_back("PYTHONPATH", std::move(path));
  if (request.children) options.environment.emplace_back("OPTRACE_RUN_CHILDREN", "1");
  if (request.window) {
    options.environment.emplace_back(
        "OPTRACE_RUN_STEPS", fmt::format("{} {}", request.window->first, request.window->count));
  }
  if (request.dry_run) {
    for (auto& variable : request.dry_run->environment())
      options.environment.push_back(std::move(variable));
  }
  return options;
}

/// Builds what most programs need that this Python runs, if it finds torch as usual. What it does
/// not find, or another torch, is left to the processes that import it.
void build_agents(const ProgramRequest& request, SharedAgents& agents,
                  const std::function<void(const ProgramProgress&)>& progress) {
  if (request.only_compilations) return;
  const auto torch = find_torch(request.python);
  if (!torch) return;
  std::error_code error;
  const auto folder = std::filesystem::canonical(torch->folder, error);
  if (error) return;
  const bool dry_run = request.dry_run.has_value();
  const InterruptGuard guard;
  agents.get(folder, (dry_run || has_gpu()) && records_device_activity(dry_run),
             [&progress](std::string_view step) {
               ProgramProgress building;
               building.step = step;
               progress(building);
             });
  InterruptGuard::throw_if_interrupted();
}

}  // namespace

std::optional<std::uint64_t> rank_number(std::string_view text) {
  constexpr std::size_t kMaxDigits = 9;
  if (text.empty() || text.size() > kMaxDigits ||
      text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  return std::stoull(std::string(text));
}

ProgramResult run_program(const ProgramRequest& request,
                          const std::function<void(const ProgramProgress&)>& progress) {
  SharedAgents agents;
  build_agents(request, agents, progress);
  const PrivateFolder folder;
  ProgramListener listener(folder.path() / "socket");
  const SignalForwarder signals;
  ChildProcess child(how_to_start(request, folder.path() / "socket"));
  SignalForwarder::forward_to(child.id());
  const ProcessWatch watch(child.id());
  TracedProgram program(request, agents, std::move(listener), child.id());
  ProgramResult result;
  Clock::time_point shown = Clock::now();
  while (!watch.ended()) {
    std::vector<pollfd> watched;
    program.add_descriptors(watched);
    watched.push_back({watch.descriptor(), POLLIN, 0});
    const int slice = watch.descriptor() < 0 ? 10 : 200;  // Milliseconds.
    ::poll(watched.data(), watched.size(), slice);
    program.listen();
    if (const int signal = SignalForwarder::take_end_request(); signal != 0) {
      result.end_request = signal;
      program.stop_building();
    }
    if (Clock::now() - shown >= std::chrono::seconds(1)) {
      shown = Clock::now();
      progress(program.progress());
    }
  }
  SignalForwarder::forward_to(0);  // Before the PID can be reused.
  if (const int signal = SignalForwarder::take_end_request(); signal != 0)
    result.end_request = signal;
  result.had_children = waited_for_children(child.id());
  result.wait_status = child.wait();
  program.listen();  // Connections of the last moment.
  program.finish(result);
  return result;
}

}  // namespace optrace
