#include "tracer/attach/text_thread.h"

#include <cstring>
#include <string>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/running_process.h"
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
};
Asked asked;

unsigned long start_thread(void (*function)(void*), void* argument) {
  asked.function = function;
  asked.argument = argument;
  return asked.thread;
}
int ensure_gil() {
  return kGilState;
}
void release_gil(int state) {
  asked.released = state;
}
int run_text(const char* text) {
  asked.text = text;
  return 0;
}

template <typename Function>
std::uint64_t address_of(Function* function) {
  return reinterpret_cast<std::uint64_t>(function);
}

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
              .descriptor = static_cast<std::uint64_t>(descriptor_),
              .process = static_cast<std::uint64_t>(::getpid())};
    std::memcpy(memory_ + kPage + sizeof(TextThread), text, std::strlen(text) + 1);
    REQUIRE(::mprotect(memory_, kPage, PROT_READ | PROT_EXEC) == 0);
  }

  ~PlacedText() {
    if (is_open()) ::close(descriptor_);
  }
  PlacedText(const PlacedText&) = delete;
  PlacedText& operator=(const PlacedText&) = delete;

  TextThread& data() { return *reinterpret_cast<TextThread*>(memory_ + kPage); }

  int call() { return reinterpret_cast<int (*)(TextThread*)>(memory_)(&data()); }

  bool is_mapped() const {
    unsigned char resident = 0;
    return ::mincore(memory_, kPage, &resident) == 0;
  }

  bool is_open() const { return ::fcntl(descriptor_, F_GETFD) >= 0; }

 private:
  int descriptor_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  char* memory_ = nullptr;
};

}  // namespace

TEST_CASE("a pending call has a thread execute a text, which then leaves no memory") {
  PlacedText placed("print(1)");
  CHECK(placed.call() == 0);
  CHECK((placed.is_mapped() && placed.data().taken == 1 && asked.text.empty()));
  REQUIRE(asked.function != nullptr);
  asked.function(asked.argument);
  CHECK(asked.text == "print(1)");
  CHECK(asked.released == kGilState);
  CHECK_FALSE(placed.is_mapped());
  CHECK(placed.is_open());
}

TEST_CASE("a pending call that was withdrawn only clears up") {
  PlacedText placed("print(1)");
  placed.data().withdrawn = 1;
  CHECK(placed.call() == 0);
  CHECK(asked.function == nullptr);
  CHECK_FALSE(placed.is_mapped());
  CHECK(placed.is_open());
}

TEST_CASE("a pending call in a forked child, or where there is no thread, closes its socket") {
  PlacedText placed("print(1)");
  SECTION("a child") {
    placed.data().process += 1;
  }
  SECTION("no thread") {
    asked.thread = kNoThread;
  }
  CHECK(placed.call() == 0);
  CHECK(asked.text.empty());
  CHECK_FALSE(placed.is_mapped());
  CHECK_FALSE(placed.is_open());
}
