// Functions that the program under gdb calls where optrace's target calls the agent: two functions
// for breakpoints, and a profile function. With a profile function set, CPython takes other paths
// through its own C code, so the two runs are comparable only if both have one.

extern "C" {

int optrace_truth_start() {
  return 0;
}

int optrace_truth_stop() {
  return 0;
}

int optrace_truth_profile(void* /*object*/, void* /*frame*/, int /*what*/, void* /*argument*/) {
  return 0;
}
}
