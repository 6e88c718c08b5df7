#pragma once

#include <cstdint>

namespace optrace::agent {

/// Makes Python's main thread call `call` between two bytecode instructions with the GIL held, and
/// waits for it. Returns the result of the call. Returns -ETIMEDOUT if the call has not begun after
/// `milliseconds`; it is then never made. Returns -ENOSYS without a usable Python, -EAGAIN if
/// Python's queue of pending calls is full. Only one caller at a time. The caller must not hold the
/// GIL and must not be the main thread.
int call_at_safe_point(int (*call)(), std::uint64_t milliseconds);

}  // namespace optrace::agent
