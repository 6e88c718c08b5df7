#include "indexer/frontend/driver.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"
#include "platform/process/child_process.h"
#include "platform/process/interrupt.h"

namespace optrace {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw Error(ExitStatus::failed, fmt::format("cannot make a pipe: {}", describe_errno(errno)),
                  "Close some files or programs and try again.");
    }
  }
};

struct Attempt {
  std::size_t unit = 0;
  bool precompiled = true;
};

/// A worker process and its current task.
class WorkerProcess {
 public:
  WorkerProcess(const std::filesystem::path& program, const WorkerSetup& setup)
      : WorkerProcess(program, setup, Pipe(), Pipe()) {}

  int output() const { return output_.get(); }
  const std::optional<Attempt>& attempt() const { return attempt_; }
  Clock::time_point started() const { return started_; }

  /// Returns false if the worker no longer reads.
  bool give(const Attempt& attempt, const UnitTask& task) {
    attempt_ = attempt;
    started_ = Clock::now();
    return send(to_line(task));
  }

  /// Reads the available output. Returns false at its end.
  bool receive() {
    std::array<char, 4096> bytes{};
    const ssize_t size = ::read(output_.get(), bytes.data(), bytes.size());
    if (size > 0) received_.append(bytes.data(), static_cast<std::size_t>(size));
    return size > 0 || (size < 0 && errno == EINTR);
  }

  std::optional<UnitStatus> answer() {
    const std::size_t end = received_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    UnitStatus status = parse_status(std::string_view(received_).substr(0, end));
    received_.erase(0, end + 1);
    attempt_.reset();
    return status;
  }

  std::string describe_end() {
    input_.close();
    return describe_wait_status(process_.wait());
  }

 private:
  WorkerProcess(const std::filesystem::path& program, const WorkerSetup& setup, Pipe to, Pipe from)
      : input_(to.ends[1]), output_(from.ends[0]), process_(start(program, to, from)) {
    send(to_line(setup));
  }

  static ChildProcess start(const std::filesystem::path& program, Pipe& to, Pipe& from) {
    const Descriptor read_end(to.ends[0]);
    const Descriptor write_end(from.ends[1]);
    const Descriptor silence(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    return ChildProcess({.arguments = {program.string()},
                         .descriptors = {{read_end.get(), STDIN_FILENO},
                                         {write_end.get(), STDOUT_FILENO},
                                         {silence.get(), STDERR_FILENO}}});
  }

  bool send(std::string_view line) const {
    while (!line.empty()) {
      const ssize_t size = ::write(input_.get(), line.data(), line.size());
      if (size < 0 && errno != EINTR) return false;
      line.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
    return true;
  }

  Descriptor input_;
  Descriptor output_;
  ChildProcess process_;
  std::string received_;
  std::optional<Attempt> attempt_;
  Clock::time_point started_;
};

/// One call of Driver::run.
class Run {
 public:
  Run(const DriverOptions& options, const WorkerSetup& setup, const std::vector<Unit>& units,
      const Driver::ResultSink& sink, const Driver::Progress& progress)
      : options_(options), setup_(setup), units_(units), sink_(sink), progress_(progress) {
    for (std::size_t unit = 0; unit < units.size(); ++unit) waiting_.push_back({unit, true});
    workers_.resize(std::min(units.size(), static_cast<std::size_t>(std::max(options.jobs, 1))));
  }

  std::vector<FailedUnit> finish() {
    progress_(0, units_.size());
    while (done_ < units_.size()) {
      for (auto& worker : workers_) hand_out(worker);
      wait_for_answers();
    }
    std::ranges::sort(failed_,
                      [](const auto& left, const auto& right) { return left.name < right.name; });
    return std::move(failed_);
  }

 private:
  using Slot = std::unique_ptr<WorkerProcess>;

  void hand_out(Slot& worker) {
    while (!waiting_.empty() && (!worker || !worker->attempt())) {
      if (!worker) worker = std::make_unique<WorkerProcess>(options_.worker, setup_);
      const Attempt attempt = waiting_.front();
      waiting_.pop_front();
      const Unit& unit = units_[attempt.unit];
      UnitTask task;
      task.number = static_cast<std::uint32_t>(attempt.unit);
      task.source = unit.source;
      task.arguments = unit.arguments;
      task.result = result_path(attempt.unit);
      task.precompiled = unit.save_as;
      if (!unit.precompiled.empty() && attempt.precompiled)
        task.arguments.insert(task.arguments.end(), {"-include-pch", unit.precompiled});
      if (!worker->give(attempt, task)) lose(worker, "the worker ended before its task");
    }
  }

  void wait_for_answers() {
    std::vector<pollfd> polled;
    std::vector<Slot*> slots;
    for (auto& worker : workers_) {
      if (worker && worker->attempt()) {
        polled.push_back({worker->output(), POLLIN, 0});
        slots.push_back(&worker);
      }
    }
    constexpr int kTickMilliseconds = 500;
    ::poll(polled.data(), polled.size(), kTickMilliseconds);
    InterruptGuard::throw_if_interrupted();
    for (std::size_t at = 0; at < polled.size(); ++at) {
      Slot& worker = *slots[at];
      if (polled[at].revents != 0) {
        if (!worker->receive()) {
          lose(worker, worker->describe_end());
        } else if (const std::optional<Attempt> attempt = worker->attempt()) {
          const auto status = worker->answer();
          if (!status) continue;
          take(*attempt, *status);
          if (status->outcome == UnitOutcome::out_of_memory) worker.reset();
        }
      } else if (Clock::now() - worker->started() > options_.unit_limit) {
        lose(worker, fmt::format("no answer within {} s", options_.unit_limit.count()));
      }
    }
    progress_(done_, units_.size());
  }

  void take(const Attempt& attempt, const UnitStatus& status) {
    const std::size_t unit = attempt.unit;
    if (status.number != unit) {
      throw Error(
          ExitStatus::failed, "the index worker answered for a unit that was not assigned to it",
          "Rebuild or reinstall optrace: its command and worker must have the same version.");
    }
    if (status.outcome == UnitOutcome::done) {
      sink_(unit, read_file(result_path(unit)).value_or(""));
      ++done_;
    } else {
      fail(attempt, describe(status.outcome));
    }
    std::error_code ignored;
    std::filesystem::remove(result_path(unit), ignored);
  }

  // Discards a worker that has ended or does not answer; its attempt fails.
  void lose(Slot& worker, const std::string& reason) {
    const std::optional<Attempt> attempt = worker->attempt();
    worker.reset();
    if (attempt) fail(*attempt, reason);
  }

  // Queues the unit again without the precompiled header, or records its failure.
  void fail(const Attempt& attempt, const std::string& reason) {
    if (attempt.precompiled) {
      waiting_.push_back({attempt.unit, false});
    } else {
      failed_.push_back({units_[attempt.unit].name, reason});
      ++done_;
    }
  }

  std::string result_path(std::size_t unit) const {
    return (results_.path() / std::to_string(unit)).string();
  }

  const DriverOptions& options_;
  const WorkerSetup& setup_;
  const std::vector<Unit>& units_;
  const Driver::ResultSink& sink_;
  const Driver::Progress& progress_;
  PrivateFolder results_;
  std::deque<Attempt> waiting_;
  std::vector<Slot> workers_;
  std::size_t done_ = 0;
  std::vector<FailedUnit> failed_;
};

}  // namespace

std::string clang_version(const std::filesystem::path& worker) {
  const PrivateFolder scratch;
  const std::filesystem::path said = scratch.path() / "version";
  const Descriptor output(::open(said.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (output.get() < 0) {
    throw Error(ExitStatus::failed,
                fmt::format("cannot write {}: {}", said.string(), describe_errno(errno)),
                "Free some space in the temporary folder, or set TMPDIR to another folder.");
  }
  ChildProcess process(
      {.arguments = {worker.string(), "--clang-version"},
       .descriptors = {{output.get(), STDOUT_FILENO}, {output.get(), STDERR_FILENO}}});
  const int status = process.wait();
  const std::string text = read_file(said).value_or("");
  // The worker prints what is wrong with libclang, and what to do, a line each.
  const std::size_t line_end = text.find('\n');
  if (WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(ExitStatus::failed) &&
      line_end != std::string::npos && text.size() > line_end + 1 && text.back() == '\n') {
    throw Error(ExitStatus::failed, text.substr(0, line_end),
                text.substr(line_end + 1, text.size() - line_end - 2));
  }
  if (status != 0) {
    throw Error(ExitStatus::failed,
                fmt::format("the index worker {} can't run ({}): {}", worker.string(),
                            describe_wait_status(status), text),
                "Reinstall optrace.");
  }
  return text;
}

std::vector<FailedUnit> Driver::run(const std::vector<Unit>& units, const ResultSink& sink,
                                    const Progress& progress) {
  return Run(options_, setup_, units, sink, progress).finish();
}

}  // namespace optrace
