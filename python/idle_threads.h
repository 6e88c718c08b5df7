#pragma once

namespace optrace {

/// Whether every other thread of this process sleeps in a futex without a time limit, which only
/// another thread can end: no thread but the calling one goes anywhere then. False when it can't be
/// told. A thread that waits for the GIL has a time limit, and one that waits for input may get it
/// at any moment.
bool other_threads_are_idle();

}  // namespace optrace
