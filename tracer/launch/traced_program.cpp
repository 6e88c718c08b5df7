#include "tracer/launch/traced_program.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "tracer/connection/protocol.h"

namespace optrace {

namespace message = protocol::message;

namespace {

constexpr std::size_t kMaxProcesses = 4096;

}  // namespace

void TracedProgram::listen() {
  try {
    while (std::optional<ProgramConnection> connection =
               listener_ ? listener_->accept() : std::nullopt) {
      if (strangers_.size() < kMaxProcesses) strangers_.push_back(std::move(*connection));
    }
  } catch (const Error& error) {
    report_failure(error);
  }
  for (std::size_t i = 0; i < strangers_.size();) {
    try {
      const std::optional<TargetMessage> message = strangers_[i].poll();
      if (!message) {
        ++i;
        continue;
      }
      if (message->kind() == message::kProgram || message->kind() == message::kEnded)
        handshake(std::move(strangers_[i]), process_in(*message));
    } catch (const Error& error) {
      report_failure(error);
    }
    strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void TracedProgram::add_descriptors(std::vector<pollfd>& watched) const {
  if (listener_) watched.push_back({listener_->descriptor(), POLLIN, 0});
  for (const ProgramConnection& stranger : strangers_)
    watched.push_back({stranger.descriptor(), POLLIN, 0});
}

ProgramProgress TracedProgram::progress() const {
  ProgramProgress sum;
  for (const auto& family : families_) family->add_to(sum);
  return sum;
}

void TracedProgram::stop_building() {
  for (const auto& family : families_) family->stop_building();
}

void TracedProgram::finish(ProgramResult& result) {
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
  std::ranges::stable_sort(
      all, {}, [](const TracedProcess& one) { return std::tuple(!one.is_main, one.rank, one.id); });
}

void TracedProgram::handshake(ProgramConnection connection, ProcessMessage message) {
  const bool related = message.ended || message.forked;
  const pid_t relative = message.ended ? connection.process() : message.parent;
  // The youngest first: a process that called exec is in two families.
  for (auto family = families_.rbegin(); family != families_.rend(); ++family) {
    if (related && (*family)->has(relative)) {
      (*family)->receive(std::move(connection), std::move(message));
      return;
    }
  }
  if (related || families_.size() >= kMaxProcesses) return;
  families_.push_back(std::make_unique<ProcessFamily>(request_, agents_, program_,
                                                      std::move(connection), std::move(message)));
}

void TracedProgram::report_failure(const Error& error) {
  if (!failed_.empty()) return;  // One is enough.
  TracedProcess& process = failed_.emplace_back();
  process.problem = error.what();
  process.remedy = error.remedy();
}

}  // namespace optrace
