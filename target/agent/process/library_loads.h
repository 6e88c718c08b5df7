#pragma once

namespace optrace::agent {

/// From now on, `follow` is called when C++ code of PyTorch has loaded a library, before it can
/// call it: when it looks up the first function. AOTInductor's models are loaded in this way, by
/// Python and by C++ programs.
void follow_library_loads(void (*follow)());

void end_following_library_loads();

}  // namespace optrace::agent
