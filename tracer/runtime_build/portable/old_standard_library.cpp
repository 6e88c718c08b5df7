// What code that this machine's compiler makes needs of a newer libstdc++ or glibc than released
// torches need. A prebuilt library has its own. Nothing here is visible outside of it.
//
// The linker drops what a library doesn't call. The functions have other names here than for the
// linker, because headers declare those as visible.

#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

#define OPTRACE_OWN(symbol) __asm__(symbol) __attribute__((visibility("hidden"), used))

// GCC 11: std::__throw_bad_array_new_length(). std::bad_alloc is the base of what libstdc++ throws.
[[noreturn]] void throw_bad_array_new_length() OPTRACE_OWN("_ZSt28__throw_bad_array_new_lengthv");
void throw_bad_array_new_length() {
  throw std::bad_alloc();
}

// GCC 5: std::__throw_out_of_range_fmt(). The numbers of the message are left out.
[[noreturn]] void throw_out_of_range(const char* format, ...)
    OPTRACE_OWN("_ZSt24__throw_out_of_range_fmtPKcz");
void throw_out_of_range(const char* format, ...) {
  throw std::out_of_range(std::string(format));
}

// GCC 5: std::runtime_error::runtime_error(const char*).
void construct_runtime_error(void* error, const char* text)
    OPTRACE_OWN("_ZNSt13runtime_errorC1EPKc");
void construct_runtime_error(void* error, const char* text) {
  new (error) std::runtime_error(std::string(text));
}

// GCC 9: std::ostringstream::ostringstream().
void construct_stream(void* stream)
    OPTRACE_OWN("_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev");
void construct_stream(void* stream) {
  new (stream) std::ostringstream(std::ios_base::out);
}

// GCC 11: std::stringbuf::str() const & and &&. The older function, which copies, has the result of
// both.
std::string copied_text(const std::stringbuf* buffer) __asm__(
    "_ZNKSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv");
std::string text_of(const std::stringbuf* buffer)
    OPTRACE_OWN("_ZNKRSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv");
std::string text_of(const std::stringbuf* buffer) {
  return copied_text(buffer);
}
std::string moved_text(std::stringbuf* buffer)
    OPTRACE_OWN("_ZNOSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv");
std::string moved_text(std::stringbuf* buffer) {
  return copied_text(buffer);
}

// glibc 2.32: __libc_single_threaded. Zero means that there may be several threads, so that
// reference counts are counted atomically.
extern char is_single_threaded OPTRACE_OWN("__libc_single_threaded");
char is_single_threaded = 0;
