// What the program under gdb calls where optrace's target calls the agent: two functions to break
// at, and a profile function. With one set, CPython takes other ways through its own C code, so
// the two runs only compare if both have one.

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
