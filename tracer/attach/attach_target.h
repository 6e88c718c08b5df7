#pragma once

#include <cstdint>
#include <filesystem>

#include <sys/types.h>

#include "platform/error.h"

namespace optrace {

/// Size of a page of x86-64.
inline constexpr std::uint64_t kPage = 4096;

/// A running Python, inspected from outside without changing it. Its paths and versions are its own
/// claims: show them with care, and follow its paths only inside its root.
struct AttachTarget {
  pid_t process = 0;         ///< In our PID namespace.
  pid_t process_inside = 0;  ///< In its own PID namespace (the last NSpid).
  /// Our path to its root folder, /proc/PID/root, if it lives in another mount namespace or under
  /// another root; else empty.
  std::filesystem::path root;
  std::filesystem::path executable;  ///< As the process sees it.
  /// The ELF file that defines Py_AddPendingCall and the other functions, as the process sees it:
  /// libpython or the executable.
  std::filesystem::path interpreter;
  std::uint64_t interpreter_bias = 0;   ///< Run-time address minus address as linked.
  std::uint64_t add_pending_call = 0;   ///< Run-time address of Py_AddPendingCall.
  std::uint64_t run_simple_string = 0;  ///< Run-time address of PyRun_SimpleString.
  std::uint64_t start_thread = 0;       ///< Run-time address of PyThread_start_new_thread.
  std::uint64_t ensure_gil = 0;         ///< Run-time address of PyGILState_Ensure.
  std::uint64_t release_gil = 0;        ///< Run-time address of PyGILState_Release.
  std::uint64_t is_initialized = 0;     ///< Run-time address of Py_IsInitialized.
  int python_minor = 0;                 ///< 3.N
  std::filesystem::path torch_folder;   ///< site-packages/torch, as the process sees it.
};

/// The way in which the agent enters a process.
enum class Entrance { ptrace, socket };

/// Inspects `process` through /proc. Only Entrance::ptrace requires the right to write to the
/// process, and sets the addresses of its functions, which are 0 otherwise. Throws Error(usage) for
/// a process that can't be traced at all (no such process, not Python, no torch, an unsupported
/// version, another processor, ...), and Error(failed) if this is not allowed to us, or something
/// else holds the process. The error states the reason.
AttachTarget inspect_attach_target(pid_t process, Entrance entrance = Entrance::ptrace);

/// Finds out why the system refused to ptrace `process` with `error`, the errno of PTRACE_SEIZE or
/// of opening /proc/PID/mem. Call after a refusal.
Error why_not_allowed(pid_t process, int error);

}  // namespace optrace
