// For shared libraries that link Debian's libyaml-cpp.a, whose code is that of programs: it can't
// reach this variable of libc from a shared library. Zero means that there may be several threads,
// which is always safe: reference counts are then counted atomically.

// NOLINTBEGIN(bugprone-reserved-identifier,readability-redundant-declaration): libc's name.
extern "C" __attribute__((visibility("hidden"))) char __libc_single_threaded;
char __libc_single_threaded = 0;
// NOLINTEND(bugprone-reserved-identifier,readability-redundant-declaration)
