#include <cerrno>
#include <cstdint>
#include <filesystem>

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include "platform/files/installation.h"
#include "platform/files/private_folder.h"
#include "present/readable_numbers.h"
#include "src/cache/cache_contents.h"
#include "src/doctor/doctor_checks.h"
#include "src/terminal/terminal.h"
#include "tracer/attach/attach_refusal.h"

namespace optrace {
namespace {

DoctorCheck check_ptrace_scope(const TracingRights& rights) {
  DoctorCheck check{.id = "ptrace scope"};
  check.facts = {{"capability", rights.may_trace_others()}};
  if (rights.yama) check.facts.push_back({"yama", std::int64_t{*rights.yama}});
  check.found = rights.yama
                    ? fmt::format("kernel.yama.ptrace_scope is {}{}", *rights.yama,
                                  rights.may_trace_others() ? "; optrace has CAP_SYS_PTRACE" : "")
                    : "not restricted (no Yama)";
  constexpr int kOnlyParents = 1;
  constexpr int kNobody = 3;
  const int scope = rights.yama.value_or(0);
  if (scope < kOnlyParents || (scope < kNobody && rights.may_trace_others())) return check;
  check.state = CheckState::limited;
  check.found += ": `optrace attach` may not trace processes that it has not started";
  check.remedy = explain_refusal(rights, EPERM).remedy();
  return check;
}

DoctorCheck check_seccomp(const TracingRights& rights) {
  DoctorCheck check{.id = "seccomp"};
  check.facts = {{"mode", std::int64_t{rights.ours.seccomp}}};
  if (!rights.ptrace_filter) {
    check.found = rights.ours.seccomp == 0 ? "no filter" : "a filter, which allows ptrace";
    return check;
  }
  check.state = CheckState::limited;
  check.found = "a filter, which forbids ptrace: `optrace attach` needs a process that listens";
  check.remedy = explain_refusal(rights, *rights.ptrace_filter).remedy();
  return check;
}

DoctorCheck check_memory_locks() {
  DoctorCheck check{.id = "memory locks"};
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    check.found = "no limit is known; optrace locks no memory";
    return check;
  }
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  if (!unlimited) check.facts = {{"bytes", std::uint64_t{limit.rlim_cur}}};
  check.found = fmt::format("{} (RLIMIT_MEMLOCK); optrace locks no memory",
                            unlimited ? "unlimited" : readable_size(limit.rlim_cur));
  return check;
}

}  // namespace

std::vector<DoctorCheck> check_permissions() {
  std::vector<DoctorCheck> checks;
  try {
    // Whether optrace could trace another process of the same user is decided by the same facts.
    const TracingRights rights = tracing_rights(::getpid());
    checks.push_back(check_ptrace_scope(rights));
    checks.push_back(check_seccomp(rights));
  } catch (const Error& error) {
    checks.push_back(failed_check("ptrace scope", CheckState::limited, error));
  }
  checks.push_back(check_memory_locks());
  return checks;
}

DoctorCheck check_installation(const std::string& version) {
  DoctorCheck check{.id = "optrace"};
  const std::string number = version.substr(version.find(' ') + 1);
  try {
    const std::string folder = program_file().parent_path().string();
    check.found = fmt::format("{}, in {}; its files in {}", number, folder, data_folder().string());
    check.facts = {{"version", number}, {"folder", folder}};
    const std::filesystem::path agent = library_folder() / "liboptrace_agent.so";
    if (!std::filesystem::exists(agent)) {
      throw Error(ExitStatus::failed, fmt::format("there is no {}", agent.string()),
                  "Rebuild or reinstall optrace.");
    }
  } catch (const Error& error) {
    return failed_check("optrace", CheckState::missing, error);
  }
  return check;
}

DoctorCheck check_cache() {
  DoctorCheck check{.id = "cache"};
  if (const std::string problem = cache_problem(); !problem.empty()) {
    check.state = CheckState::limited;
    check.found = "nothing can be cached, so that work is repeated in each run";
    check.remedy = problem;
    return check;
  }
  std::uint64_t bytes = 0;
  std::vector<DoctorFact> parts;
  for (const CachePart& part : list_cache()) {
    bytes += bytes_of(part);
    if (!part.entries.empty()) parts.push_back({std::string(part.folder), bytes_of(part)});
  }
  check.facts = {{"folder", cache_folder().string()}, {"bytes", bytes}, {"parts", parts}};
  check.found = fmt::format("{} in {}; `optrace cache list` shows more", readable_size(bytes),
                            cache_folder().string());
  return check;
}

DoctorCheck check_terminal() {
  DoctorCheck check{.id = "terminal"};
  const OutputTarget target = standard_output();
  check.facts = {{"terminal", target.terminal}};
  if (!target.terminal) {
    check.found = "standard output is none; text has no colours and no maximum width";
    return check;
  }
  const TerminalStyle style = style_for({}, target);
  check.facts.push_back({"colour", style.colour});
  check.facts.push_back({"columns", std::uint64_t{target.width}});
  check.found = fmt::format(
      "{}, {}",
      target.width == 0 ? std::string("of unknown width") : fmt::format("{} columns", target.width),
      style.colour ? "with colours and links" : "without colours (NO_COLOR, or TERM is dumb)");
  return check;
}

}  // namespace optrace
