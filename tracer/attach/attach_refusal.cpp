#include "tracer/attach/attach_refusal.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tracer/attach/attach_target.h"

namespace optrace {
namespace {

constexpr std::size_t kTextLimit = 1 << 16;

bool has_capability(std::uint64_t set, int capability) {
  return (set >> capability & 1) != 0;
}

bool all_are(const std::array<std::uint32_t, 4>& ids, std::uint32_t id) {
  // The fourth id, of file access, does not count for the traced process.
  return std::all_of(ids.begin(), ids.begin() + 3,
                     [id](std::uint32_t found) { return found == id; });
}

std::string described(const ProcessStatus& process) {
  return fmt::format("process {} ({})", process.process, shown(process.name));
}

std::string user_name(std::uint32_t user) {
  std::string buffer(kTextLimit, '\0');
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return fmt::format("{}", user);
  return shown(found->pw_name);
}

/// Returns the first line of a system file; empty if there is none.
std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return shown(line);
}

std::string user_namespace_of(const RunningProcess& process) {
  const RunningProcess::Text link = process.read_link("ns/user");
  return link.error == 0 ? link.text : std::string();
}

/// Root in a container often lacks the capability.
std::string container_advice(const TracingRights& rights) {
  return rights.in_container ? " In a container that was started without the right to trace, start "
                               "it with --cap-add=SYS_PTRACE (Kubernetes: "
                               "securityContext.capabilities.add: [SYS_PTRACE])."
                             : "";
}

std::string name_of_yama_scope(int scope) {
  return fmt::format("Yama's kernel.yama.ptrace_scope is {} here", scope);
}

Error without_capability(const TracingRights& rights, const std::string& target) {
  const std::uint32_t us = rights.ours.users[0];
  const std::string as_root =
      "Run it as root (sudo optrace attach ...)." + container_advice(rights);
  if (rights.target.users[0] == us && !all_are(rights.target.users, us)) {
    return {ExitStatus::failed,
            fmt::format("{} runs set-user-ID as user {} (user ID {}), started by this user", target,
                        rights.target_user_name, rights.target.users[1]),
            "Only a process with CAP_SYS_PTRACE may trace it. " + as_root};
  }
  if (!all_are(rights.target.users, us)) {
    return {ExitStatus::failed,
            fmt::format("{} belongs to another user: it runs as {} (user ID {}), and optrace runs "
                        "as {} (user ID {})",
                        target, rights.target_user_name, rights.target.users[1],
                        rights.our_user_name, us),
            fmt::format("Run optrace as that user (sudo -u '#{}' optrace attach ...), or as root.",
                        rights.target.users[1]) +
                container_advice(rights)};
  }
  if (!rights.same_user_namespace) {
    return {ExitStatus::failed, fmt::format("{} is in another user namespace", target),
            "Run optrace in the namespace in which it was started (for a rootless container: "
            "`podman unshare`, or inside the container), or as root outside of both."};
  }
  if (!all_are(rights.target.groups, rights.ours.groups[0])) {
    return {ExitStatus::failed,
            fmt::format("{} runs with other groups: real {}, effective {}; optrace has {}", target,
                        rights.target.groups[0], rights.target.groups[1], rights.ours.groups[0]),
            fmt::format("It was started set-group-ID or by `sg`. Run optrace with that group (sg), "
                        "or as root (sudo optrace attach ...).{}",
                        container_advice(rights))};
  }
  if ((rights.target.permitted & ~rights.ours.permitted) != 0) {
    return {ExitStatus::failed,
            fmt::format("{} has capabilities that optrace lacks: {:#x}; optrace has {:#x}", target,
                        rights.target.permitted, rights.ours.permitted),
            "Only a process with CAP_SYS_PTRACE may trace it. " + as_root};
  }
  if (!rights.dumpable) {
    return {ExitStatus::failed,
            fmt::format("{} is not dumpable (it changed its user, was started from an unreadable "
                        "file, or called prctl(PR_SET_DUMPABLE)), and optrace lacks CAP_SYS_PTRACE",
                        target),
            as_root};
  }
  if (rights.yama == 2) {
    return {ExitStatus::failed,
            fmt::format("{} may not be traced: {}, so only processes with CAP_SYS_PTRACE may "
                        "trace others",
                        target, name_of_yama_scope(2)),
            "Run it as root (sudo optrace attach ...), or have root set it: sysctl "
            "kernel.yama.ptrace_scope=0." +
                container_advice(rights)};
  }
  if (rights.yama == 1) {
    return {ExitStatus::failed,
            fmt::format("{} may not be traced: {}, so only a process's parents, and processes "
                        "with CAP_SYS_PTRACE, may trace it",
                        target, name_of_yama_scope(1)),
            "Run it as root (sudo optrace attach ...), or have root set it: sysctl "
            "kernel.yama.ptrace_scope=0. Or let the target allow it: "
            "prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)." +
                container_advice(rights)};
  }
  if (rights.in_container) {
    return {ExitStatus::failed,
            fmt::format("{} may not be traced: optrace runs in a container without CAP_SYS_PTRACE",
                        target),
            "Start the container with --cap-add=SYS_PTRACE (Kubernetes: "
            "securityContext.capabilities.add: [SYS_PTRACE]), or run optrace as root outside of "
            "the container."};
  }
  return {ExitStatus::failed,
          fmt::format("optrace may not trace {}, because it lacks CAP_SYS_PTRACE", target),
          as_root};
}

}  // namespace

bool TracingRights::may_trace_others() const {
  return has_capability(ours.effective, CAP_SYS_PTRACE);
}

Error explain_refusal(const TracingRights& rights, int error) {
  const std::string target = described(rights.target);
  if (error == ESRCH || rights.target.ended()) {
    return {ExitStatus::failed, fmt::format("{} has ended in the meantime", target),
            "Attach to a running process."};
  }
  if (rights.target.tracer != 0) {
    return {ExitStatus::failed,
            fmt::format("{} is already traced by process {} ({}): a process can have only one "
                        "tracer or debugger",
                        target, rights.target.tracer, shown(rights.tracer_command)),
            fmt::format("End that process (kill {}) or let it detach (gdb: detach; strace: "
                        "Ctrl-C), then attach again.",
                        rights.target.tracer)};
  }
  if (rights.ptrace_filter) {
    return {ExitStatus::failed,
            fmt::format("optrace runs under a seccomp filter that forbids ptrace: {}",
                        describe_errno(*rights.ptrace_filter)),
            "Run optrace outside of the sandbox, or start its container with --cap-add=SYS_PTRACE "
            "or --security-opt seccomp=unconfined."};
  }
  if (rights.yama == 3) {
    return {
        ExitStatus::failed,
        fmt::format("{} may not be traced: {}, so no process may trace another, not even as root",
                    target, name_of_yama_scope(3)),
        "This can't be undone before the next boot: have root set kernel.yama.ptrace_scope=0 in "
        "/etc/sysctl.d and restart the machine. Until then, start the program with optrace run."};
  }
  if (!rights.may_trace_others()) return without_capability(rights, target);
  if (!rights.same_user_namespace) {
    return {
        ExitStatus::failed,
        fmt::format(
            "{} is in another user namespace, where the CAP_SYS_PTRACE of optrace has no effect",
            target),
        "Run optrace as root outside of its own user namespace (rootless container, unshare -U), "
        "or inside that of the target."};
  }
  if (!rights.security_label.empty() && rights.security_label != "unconfined") {
    return {ExitStatus::failed,
            fmt::format("optrace may not trace {} ({}), although it has CAP_SYS_PTRACE: most "
                        "likely the security policy for {} (AppArmor or SELinux) forbids it",
                        target, describe_errno(error), rights.security_label),
            "Look for the refusal in the kernel's log (dmesg, or ausearch -m avc), and run optrace "
            "outside of that policy (for a container: --security-opt apparmor=unconfined; for "
            "SELinux: setsebool deny_ptrace off)."};
  }
  return {
      ExitStatus::failed,
      fmt::format("optrace may not trace {}, although it has CAP_SYS_PTRACE: {}", target,
                  describe_errno(error)),
      "A security module (such as Landlock) or a sandbox forbids it: run optrace outside of it" +
          std::string(rights.target.seccomp != 0 ? ". The target has a seccomp filter of its own."
                                                 : ".")};
}

TracingRights tracing_rights(pid_t process) {
  TracingRights rights;
  const RunningProcess us(::getpid());
  const RunningProcess target(process);
  rights.ours = us.status();
  rights.target = target.status();
  struct stat owner{};
  // The process's folder always belongs to its user; the files in it belong to root unless it is
  // dumpable.
  const Descriptor status = target.open("status", O_RDONLY);
  rights.dumpable =
      !status || ::fstat(status.get(), &owner) != 0 || owner.st_uid == rights.target.users[1];
  const std::string our_namespace = user_namespace_of(us);
  const std::string its_namespace = user_namespace_of(target);
  rights.same_user_namespace =
      its_namespace.empty() || our_namespace.empty()
          ? us.read("uid_map", kTextLimit).text == target.read("uid_map", kTextLimit).text
          : our_namespace == its_namespace;
  const RunningProcess::Text label = us.read("attr/current", kTextLimit);
  if (label.error == 0) {
    rights.security_label =
        shown(label.text.substr(0, label.text.find_first_of(std::string_view("\n\0", 2))));
  }
  rights.our_user_name = user_name(rights.ours.users[0]);
  rights.target_user_name = user_name(rights.target.users[1]);
  if (rights.target.tracer != 0)
    rights.tracer_command = first_line(fmt::format("/proc/{}/comm", rights.target.tracer).c_str());
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  if (scope.size() == 1 && scope[0] >= '0' && scope[0] <= '3') rights.yama = scope[0] - '0';
  // This traces no process: if ptrace may be called at all, it fails with ESRCH and has no effect.
  if (::ptrace(PTRACE_DETACH, ::getpid(), nullptr, nullptr) != 0 && errno != ESRCH)
    rights.ptrace_filter = errno;
  rights.in_container = ::access("/.dockerenv", F_OK) == 0 ||
                        ::access("/run/.containerenv", F_OK) == 0 ||
                        ::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
  return rights;
}

Error why_not_allowed(pid_t process, int error) {
  try {
    return explain_refusal(tracing_rights(process), error);
  } catch (const Error&) {
    return {ExitStatus::failed, fmt::format("process {} has ended in the meantime", process),
            "Attach to a running process."};
  }
}

}  // namespace optrace
