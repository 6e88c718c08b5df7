// For shared libraries that link Debian's libyaml-cpp.a and libncursesw.a, whose code is that of
// programs: it can't reach these variables of libc from a shared library.

#include <dlfcn.h>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-redundant-declaration): libc's names.
#define HIDDEN __attribute__((visibility("hidden")))

// Zero means that there may be several threads, which is always safe: reference counts are then
// counted atomically.
extern "C" HIDDEN char __libc_single_threaded;
char __libc_single_threaded = 0;

// Copies of libc's own. <cstdio> would declare these as libc's.
extern "C" {
extern HIDDEN void* stdin;
extern HIDDEN void* stdout;
extern HIDDEN void* stderr;
}
void* stdin = nullptr;
void* stdout = nullptr;
void* stderr = nullptr;

namespace {

void* value_in_libc(const char* name) {
  return *static_cast<void**>(::dlsym(RTLD_NEXT, name));
}

// Before all other code of the library.
__attribute__((constructor(101))) void copy_streams() {
  stdin = value_in_libc("stdin");
  stdout = value_in_libc("stdout");
  stderr = value_in_libc("stderr");
}

}  // namespace
// NOLINTEND(bugprone-reserved-identifier,readability-redundant-declaration)
