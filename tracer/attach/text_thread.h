#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace optrace {

/// The argument of text_thread_code(), in the other process. The null-terminated Python text
/// follows it. All addresses are those of that process.
struct TextThread {
  std::uint64_t system_call = 0;   ///< syscall; ret
  std::uint64_t start_thread = 0;  ///< PyThread_start_new_thread
  std::uint64_t ensure_gil = 0;    ///< PyGILState_Ensure
  std::uint64_t release_gil = 0;   ///< PyGILState_Release
  std::uint64_t run_text = 0;      ///< PyRun_SimpleString
  std::uint64_t memory = 0;        ///< Address of the code, this and the text, to be unmapped.
  std::uint64_t size = 0;          ///< Size of that memory in bytes.
  std::uint64_t descriptor = 0;    ///< Closed if the text is not executed.
  std::uint64_t process = 0;       ///< PID in the process's own namespace.
  std::uint64_t taken = 0;         ///< Set to 1 when the code runs.
  std::uint64_t withdrawn = 0;     ///< If 1 when the code runs, it only unmaps.
};

/// Code for a pending call of a Python (int (*)(TextThread*)). It starts a thread that executes the
/// text. It executes no Python on the calling thread, because a signal handler that ran within it
/// would lose its exception, and a profile function would see it. A forked child that inherits the
/// call does not execute the text. The code is position-independent.
std::span<const std::byte> text_thread_code();

}  // namespace optrace
