#pragma once

#include <optional>
#include <string>

#include "platform/error.h"
#include "platform/process/running_process.h"

namespace optrace {

/// The facts that decide whether one process may trace another; see "Ptrace access mode checking"
/// in ptrace(2). why_not_allowed() passes them on. A plain value, so that each case can be tested.
struct TracingRights {
  ProcessStatus ours;
  ProcessStatus target;
  std::string our_user_name;         ///< "alice", or the number if there is no name.
  std::string target_user_name;      ///< Likewise, of the target's effective user.
  std::string tracer_command;        ///< Name of target.tracer's command.
  bool same_user_namespace = true;   ///< As far as known.
  bool dumpable = true;              ///< False if the kernel shows its files as root's.
  std::optional<int> yama;           ///< kernel.yama.ptrace_scope; empty without Yama.
  std::optional<int> ptrace_filter;  ///< errno if our own harmless ptrace call is refused.
  std::string security_label;        ///< Our own, of AppArmor or SELinux; empty if none.
  bool in_container = false;         ///< True if we appear to run in a container.

  /// True if optrace has CAP_SYS_PTRACE, with which it may trace what Yama forbids to others.
  bool may_trace_others() const;
};

/// Collects them for tracing `process`. Throws Error if it has ended.
TracingRights tracing_rights(pid_t process);

/// Returns the first reason that explains `error`, with a remedy.
Error explain_refusal(const TracingRights& rights, int error);

}  // namespace optrace
