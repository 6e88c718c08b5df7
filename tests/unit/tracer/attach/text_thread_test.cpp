#include "tracer/attach/text_thread.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "platform/process/running_process.h"
#include "tracer/attach/stopped_thread.h"

using namespace optrace;

namespace {

constexpr std::size_t kPage = 4096;
constexpr int kGilState = 7;
constexpr unsigned long kNoThread = ~0UL;

// The arguments of calls to the interpreter's functions, which are replaced by those below.
struct Asked {
  unsigned long thread = 1;  // Result of start_thread().
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
  std::string text;
  int released = 0;
  int initialized = 1;  // Result of is_initialized().
  int added = 0;        // Result of add_pending_call().
  int (*pending)(void*) = nullptr;
};
Asked asked;

unsigned long start_thread(void (*function)(void*), void* argument) {
  asked.function = function;
  asked.argument = argument;
  return asked.thread;
}
int add_pending_call(int (*function)(void*), void* argument) {
  asked.pending = function;
  asked.argument = argument;
  return asked.added;
}
int ensure_gil() {
  return kGilState;
}
void release_gil(int state) {
  asked.released = state;
}
int is_initialized() {
  return asked.initialized;
}
int run_text(const char* text) {
  asked.text = text;
  return 0;
}

template <typename Function>
std::uint64_t address_of(Function* function) {
  return reinterpret_cast<std::uint64_t>(function);
}

constexpr int kLowestEnd = 200;

// The code, its data and a text, in memory laid out as in a process that is attached to.
class PlacedText {
 public:
  explicit PlacedText(const char* text) {
    asked = {};
    memory_ = static_cast<char*>(
        ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory_ != MAP_FAILED);
    std::memcpy(memory_, text_thread_code().data(), text_thread_code().size());
    data() = {.system_call = find_calling_code(RunningProcess(::getpid())).system_call,
              .start_thread = address_of(start_thread),
              .ensure_gil = address_of(ensure_gil),
              .release_gil = address_of(release_gil),
              .run_text = address_of(run_text),
              .memory = address_of(memory_),
              .size = 2 * kPage,
              .add_pending_call = address_of(add_pending_call),
              .process = static_cast<std::uint64_t>(::getpid()),
              .lowest_end = kLowestEnd,
              .is_initialized = address_of(is_initialized)};
    char* const at = memory_ + kPage + sizeof(TextThread);
    std::memcpy(at, text, std::strlen(text) + 1);
    for (std::size_t i = 0; i < 2; ++i)
      data().digits[i] = address_of(at) + (i + 1) * kDescriptorDigits + i;
    REQUIRE(::mprotect(memory_, kPage, PROT_READ | PROT_EXEC) == 0);
  }

  ~PlacedText() {
    for (const int end : ends_)
      if (is_open(end)) ::close(end);
  }
  PlacedText(const PlacedText&) = delete;
  PlacedText& operator=(const PlacedText&) = delete;

  TextThread& data() { return *reinterpret_cast<TextThread*>(memory_ + kPage); }

  /// Makes the sockets and adds the pending call.
  void connect() {
    reinterpret_cast<void (*)(TextThread*)>(memory_ + connect_offset())(&data());
    std::ranges::copy(data().ends, ends_.begin());
  }

  int call() { return reinterpret_cast<int (*)(TextThread*)>(memory_)(&data()); }

  bool is_mapped() const {
    unsigned char resident = 0;
    return ::mincore(memory_, kPage, &resident) == 0;
  }

  int open_ends() const { return static_cast<int>(std::ranges::count_if(ends_, is_open)); }
  const std::array<int, 2>& ends() const { return ends_; }

 private:
  static bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

  std::array<int, 2> ends_{-1, -1};
  char* memory_ = nullptr;
};

}  // namespace

TEST_CASE("one function makes the sockets, completes the text and adds the pending call") {
  PlacedText placed("          ,          ,");
  placed.connect();
  REQUIRE(placed.data().error == 0);
  REQUIRE(placed.open_ends() == 2);
  for (const int end : placed.ends()) {
    CHECK(::fcntl(end, F_GETFD) == FD_CLOEXEC);
    CHECK(end >= kLowestEnd);
  }
  char byte = 'x';
  CHECK(::write(placed.ends()[0], &byte, 1) == 1);
  CHECK(::read(placed.ends()[1], &byte, 1) == 1);
  REQUIRE(asked.pending != nullptr);
  CHECK(asked.pending(asked.argument) == 0);
  REQUIRE(asked.function != nullptr);
  asked.function(asked.argument);
  CHECK(asked.text == fmt::format("{:>10},{:>10},", placed.ends()[0], placed.ends()[1]));
  CHECK_FALSE(placed.is_mapped());
  CHECK(placed.open_ends() == 2);
}

TEST_CASE("without sockets there is no pending call") {
  PlacedText placed("          ,          ,");
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlimit none{0, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  placed.connect();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(placed.data().error == -EMFILE);
  CHECK(asked.pending == nullptr);
  CHECK(placed.is_mapped());
}

TEST_CASE("a Python that has ended gets no sockets and no pending call") {
  PlacedText placed("          ,          ,");
  asked.initialized = 0;
  placed.connect();
  CHECK(placed.data().error == kNoInterpreter);
  CHECK(placed.ends() == std::array{-1, -1});
  CHECK(asked.pending == nullptr);
}

TEST_CASE("a Python that takes no more pending calls keeps no sockets") {
  PlacedText placed("          ,          ,");
  asked.added = -1;
  placed.connect();
  CHECK(placed.data().error == kFull);
  CHECK(placed.open_ends() == 0);
}

TEST_CASE("a pending call has a thread execute a text, which then leaves no memory") {
  PlacedText placed("          ,          ,print(1)");
  placed.connect();
  CHECK(placed.call() == 0);
  CHECK((placed.is_mapped() && placed.data().taken == 1 && asked.text.empty()));
  REQUIRE(asked.function != nullptr);
  asked.function(asked.argument);
  CHECK(asked.text.ends_with(",print(1)"));
  CHECK(asked.released == kGilState);
  CHECK_FALSE(placed.is_mapped());
  CHECK(placed.open_ends() == 2);
}

TEST_CASE("a pending call that was withdrawn only clears up") {
  PlacedText placed("          ,          ,print(1)");
  placed.connect();
  placed.data().withdrawn = 1;
  CHECK(placed.call() == 0);
  CHECK(asked.function == nullptr);
  CHECK_FALSE(placed.is_mapped());
  CHECK(placed.open_ends() == 2);
}

TEST_CASE("a pending call in a forked child, or where there is no thread, closes its sockets") {
  PlacedText placed("          ,          ,print(1)");
  placed.connect();
  SECTION("a child") {
    placed.data().process += 1;
  }
  SECTION("no thread") {
    asked.thread = kNoThread;
  }
  CHECK(placed.call() == 0);
  CHECK(asked.text.empty());
  CHECK_FALSE(placed.is_mapped());
  CHECK(placed.open_ends() == 0);
}
