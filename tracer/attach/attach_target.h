#pragma once

#include <cstdint>
#include <filesystem>

#include <sys/types.h>

#include "platform/error.h"

namespace optrace {

/// A running Python, looked at from outside; nothing of it has been touched. What it says of itself
/// (paths, versions) is its own claim: it is text to show with care, and never a path to follow but
/// inside its root.
struct AttachTarget {
  pid_t process = 0;         ///< As we know it.
  pid_t process_inside = 0;  ///< As it knows itself (the last NSpid).
  /// Its root folder as we get to it, /proc/PID/root, when it lives in another mount namespace or
  /// under another root; else empty.
  std::filesystem::path root;
  std::filesystem::path executable;  ///< As it sees it.
  /// The ELF file that defines Py_AddPendingCall and the other functions: libpython, or the
  /// executable. As it sees it.
  std::filesystem::path interpreter;
  std::uint64_t interpreter_bias = 0;   ///< Of that file: run-time address minus address as linked.
  std::uint64_t add_pending_call = 0;   ///< Run-time address of Py_AddPendingCall.
  std::uint64_t run_simple_string = 0;  ///< Run-time address of PyRun_SimpleString.
  std::uint64_t start_thread = 0;       ///< Run-time address of PyThread_start_new_thread.
  std::uint64_t ensure_gil = 0;         ///< Run-time address of PyGILState_Ensure.
  std::uint64_t release_gil = 0;        ///< Run-time address of PyGILState_Release.
  int python_minor = 0;                 ///< 3.N
  std::filesystem::path torch_folder;   ///< site-packages/torch, as it sees it.
};

/// How the agent gets into a process.
enum class Entrance { ptrace, socket };

/// Looks at `process` through /proc. Only what is to be called by ptrace needs the right to write
/// to it, and its functions' addresses, which are 0 otherwise. Throws Error(usage) for one that
/// can't be traced at all (no such process, not Python, no torch, a version that isn't supported,
/// another processor, ...), and Error(failed) where it is not allowed to us, or something else
/// holds it; each says which it is.
AttachTarget inspect_attach_target(pid_t process, Entrance entrance = Entrance::ptrace);

/// Why the system refused to ptrace `process` with `error`, the errno of PTRACE_SEIZE or of opening
/// /proc/PID/mem, found by looking. For after a refusal.
Error why_not_allowed(pid_t process, int error);

}  // namespace optrace
