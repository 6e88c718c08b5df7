#pragma once

#include <optional>
#include <string>

#include "platform/error.h"
#include "platform/running_process.h"

namespace optrace {

/// What decides whether one process may trace another; see "Ptrace access mode checking" in
/// ptrace(2). Gathered by why_not_allowed(), a plain value so that each case can be tried.
struct TracingRights {
  ProcessStatus ours;
  ProcessStatus target;
  std::string our_user_name;         ///< "alice", or the number where there is no name.
  std::string target_user_name;      ///< As above, of its effective user.
  std::string tracer_command;        ///< Of target.tracer.
  bool same_user_namespace = true;   ///< As far as can be seen.
  bool dumpable = true;              ///< False where the kernel shows its files as root's.
  std::optional<int> yama;           ///< kernel.yama.ptrace_scope; none: no Yama.
  std::optional<int> ptrace_filter;  ///< errno that a harmless ptrace of ours is refused with.
  std::string security_label;        ///< Ours, as AppArmor or SELinux says; empty: none.
  bool in_container = false;         ///< We are, or what runs us looks like one.
};

/// The first of the reasons that explains `error`, and what to do.
Error explain_refusal(const TracingRights& rights, int error);

}  // namespace optrace
