#include "tracer/launch/program_tracer.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include "gpu/build/activity_agent.h"
#include "platform/files/installation.h"
#include "platform/files/private_folder.h"
#include "platform/process/child_process.h"
#include "platform/process/interrupt.h"
#include "platform/process/signal_forwarder.h"
#include "pytorch/installed/installed_torch.h"
#include "tracer/connection/program_socket.h"
#include "tracer/connection/target_agents.h"
#include "tracer/launch/process_watch.h"
#include "tracer/launch/traced_program.h"

namespace optrace {
namespace {

using Clock = std::chrono::steady_clock;

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
  if (request.dry_run)
    for (auto& variable : request.dry_run->environment())
      options.environment.push_back(std::move(variable));
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
  ChildrenWatch children(child.id());
  while (!watch.ended()) {
    std::vector<pollfd> watched;
    program.add_descriptors(watched);
    watched.push_back({watch.descriptor(), POLLIN, 0});
    const int slice = watch.descriptor() < 0 ? 10 : 200;  // Milliseconds.
    ::poll(watched.data(), watched.size(), slice);
    program.listen();
    if (!request.children) children.look();
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
  result.children_used_torch = children.used_torch();
  result.wait_status = child.wait();
  program.listen();  // Connections of the last moment.
  program.finish(result);
  return result;
}

}  // namespace optrace
