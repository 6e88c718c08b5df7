#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

namespace optrace {

/// The argument of text_thread_code(), in the other process. The null-terminated Python text
/// follows it. All addresses are those of that process.
struct TextThread {
  std::uint64_t system_call = 0;       ///< syscall; ret
  std::uint64_t start_thread = 0;      ///< PyThread_start_new_thread
  std::uint64_t ensure_gil = 0;        ///< PyGILState_Ensure
  std::uint64_t release_gil = 0;       ///< PyGILState_Release
  std::uint64_t run_text = 0;          ///< PyRun_SimpleString
  std::uint64_t memory = 0;            ///< Address of the code, this and the text, to be unmapped.
  std::uint64_t size = 0;              ///< Size of that memory in bytes.
  std::uint64_t add_pending_call = 0;  ///< Py_AddPendingCall
  std::uint64_t process = 0;           ///< PID in the process's own namespace.
  std::uint64_t taken = 0;             ///< Set to 1 when the code runs.
  std::uint64_t withdrawn = 0;         ///< If 1 when the code runs, it only unmaps.
  /// Result of connect_offset(): 0, the -errno of socketpair(), kNoInterpreter or kFull.
  std::int64_t error = -EINPROGRESS;
  int ends[2] = {-1, -1};  ///< Two connected sockets, closed if no text is executed.
  /// Where the text has the decimal digits of `ends`: the addresses after the last digits.
  std::uint64_t digits[2] = {};
  std::uint64_t lowest_end = 0;      ///< The lowest number of a socket, if the limits allow it.
  std::uint64_t is_initialized = 0;  ///< Py_IsInitialized
};

/// The Python is finalized or on its way there: a pending call would crash or never be made.
inline constexpr std::int64_t kNoInterpreter = -ESRCH;
/// The Python takes no more pending calls (32 before 3.13).
inline constexpr std::int64_t kFull = -EAGAIN;

/// Maximum number of decimal digits of a descriptor.
inline constexpr std::size_t kDescriptorDigits = 10;

/// Code for a pending call of a Python (int (*)(TextThread*)). It starts a thread that executes the
/// text. It executes no Python on the calling thread, because a signal handler that ran within it
/// would lose its exception, and a profile function would see it. A forked child that inherits the
/// call does not execute the text. The code is position-independent.
std::span<const std::byte> text_thread_code();

/// Offset in that code of a function (void (*)(TextThread*)) that makes the two sockets, writes
/// their descriptors into the text, and adds the pending call, if the Python runs. Since one
/// function does all of this, no socket is left behind if the process that calls it is killed.
std::size_t connect_offset();

}  // namespace optrace
