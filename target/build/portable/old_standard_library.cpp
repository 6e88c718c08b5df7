// What code that this machine's compiler makes needs of a newer libstdc++ or glibc than released
// torches need. A prebuilt library has its own. Nothing here is visible outside of it.
//
// The linker drops what a library doesn't call. The functions have other names here than for the
// linker, because headers declare those as visible.

#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OPTRACE_OWN(symbol) __asm__(symbol) __attribute__((visibility("hidden")))

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

// GCC 9: std::ostringstream::ostringstream(), with torch's string.
#if _GLIBCXX_USE_CXX11_ABI
void construct_stream(void* stream)
    OPTRACE_OWN("_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev");
#else
void construct_stream(void* stream)
    OPTRACE_OWN("_ZNSt19basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev");
#endif
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

// glibc 2.27: memfd_create(). Kernels without it return the same error.
int create_memory_file(const char* name, unsigned flags) OPTRACE_OWN("memfd_create");
int create_memory_file(const char* name, unsigned flags) {
  return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}

// glibc 2.30: pthread_cond_clockwait(), by which std::condition_variable waits for a time. The
// older function's clock may be set meanwhile; the time is then another one.
int wait_until(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
               const timespec* end) OPTRACE_OWN("pthread_cond_clockwait");
int wait_until(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
               const timespec* end) {
  constexpr long kSecond = 1000000000;
  timespec now{};
  timespec until{};
  ::clock_gettime(clock, &now);
  ::clock_gettime(CLOCK_REALTIME, &until);
  const long nanoseconds = until.tv_nsec + end->tv_nsec - now.tv_nsec + kSecond;
  until.tv_sec += end->tv_sec - now.tv_sec + nanoseconds / kSecond - 1;
  until.tv_nsec = nanoseconds % kSecond;
  return ::pthread_cond_timedwait(condition, mutex, &until);
}
