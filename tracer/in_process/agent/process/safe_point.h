#pragma once

#include <cstdint>

namespace optrace::agent {

/// Has Python's main thread call `call` between two instructions of the interpreter, with the GIL
/// held, and waits for it without. Returns what the call gave, or, when it has not begun after
/// `milliseconds`, -ETIMEDOUT: then it never will. -ENOSYS without a usable Python, -EAGAIN when
/// too much is waiting there already. One caller at a time; not from the main thread.
int call_at_safe_point(int (*call)(), std::uint64_t milliseconds);

}  // namespace optrace::agent
