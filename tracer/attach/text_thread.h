#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace optrace {

/// What the code of text_thread_code() is called with, in the other process. The Python text, with
/// a zero at its end, follows it. All addresses are that process's.
struct TextThread {
  std::uint64_t system_call = 0;   ///< syscall; ret
  std::uint64_t start_thread = 0;  ///< PyThread_start_new_thread
  std::uint64_t ensure_gil = 0;    ///< PyGILState_Ensure
  std::uint64_t release_gil = 0;   ///< PyGILState_Release
  std::uint64_t run_text = 0;      ///< PyRun_SimpleString
  std::uint64_t memory = 0;        ///< The code, this and the text, which are unmapped in the end,
  std::uint64_t size = 0;          ///< and their bytes.
  std::uint64_t descriptor = 0;    ///< To close where the text is not executed.
  std::uint64_t process = 0;       ///< Its ID, as it knows itself.
  std::uint64_t taken = 0;         ///< Becomes 1 once the code runs;
  std::uint64_t withdrawn = 0;     ///< if this is 1 by then, it only unmaps.
};

/// Code for a pending call of a Python (int (*)(TextThread*)). It starts a thread that executes the
/// text, and no Python itself: on the thread that makes the call no signal handler runs within it,
/// whose exception would be lost, and no profile function sees it. A forked child that inherits the
/// call executes no text. It can lie at any address.
std::span<const std::byte> text_thread_code();

}  // namespace optrace
