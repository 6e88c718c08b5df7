#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/files/private_folder.h"
#include "tests/agent/loaded_agent.h"

using optrace::test::agent;
using optrace::test::symbol;

namespace {

using IntFunction = int(int);

IntFunction* original_double = nullptr;
IntFunction* original_negate = nullptr;
IntFunction* original_own = nullptr;
std::atomic<int> calls = 0;

int replaced_double(int value) {
  ++calls;
  return 1000 + original_double(value);
}
int replaced_negate(int value) {
  ++calls;
  return 1000 + original_negate(value);
}
int replaced_own(int value) {
  ++calls;
  return 1000 + original_own(value);
}
int another_double(int value) {
  return value;
}

template <typename Function>
optrace_agent_redirection redirection(const char* name, IntFunction* replacement,
                                      Function** original) {
  return {name, reinterpret_cast<void*>(replacement), reinterpret_cast<void**>(original)};
}

const std::array kAll{redirection("imported_double", replaced_double, &original_double),
                      redirection("imported_negate", replaced_negate, &original_negate),
                      redirection("importing_own", replaced_own, &original_own)};
constexpr auto kCount = static_cast<std::uint32_t>(kAll.size());

// The library under test. Each object loads a new copy, in which nothing has been called yet.
class Importing {
 public:
  explicit Importing(const char* path) : folder_(), copy_(folder_.path() / "libimporting.so") {
    std::filesystem::copy_file(path, copy_);
    library_ = dlopen(copy_.c_str(), RTLD_LAZY | RTLD_LOCAL);
    REQUIRE(library_ != nullptr);
    calls_double = symbol<IntFunction>(library_, "importing_calls_double");
    calls_negate = symbol<IntFunction>(library_, "importing_calls_negate");
    calls_own = symbol<IntFunction>(library_, "importing_calls_own");
    calls_through_table = symbol<IntFunction>(library_, "importing_calls_through_table");
    table = symbol<IntFunction*>(library_, "importing_table");
    inside = reinterpret_cast<const void*>(calls_double);
  }
  ~Importing() {
    agent().restore(nullptr, 0);
    if (library_ != nullptr) dlclose(library_);
  }
  Importing(const Importing&) = delete;
  Importing& operator=(const Importing&) = delete;

  void unload() {
    dlclose(library_);
    library_ = nullptr;
  }

  bool is_as_it_was() const {
    return calls_double(4) == 8 && calls_negate(4) == -4 && calls_own(4) == 5 &&
           calls_through_table(4) == 8;
  }
  bool is_redirected() const {
    return calls_double(4) == 1008 && calls_negate(4) == 996 && calls_own(4) == 1005 &&
           calls_through_table(4) == 1008;
  }

  // Returns the entries that the dynamic linker fills at a function's first call
  // (R_X86_64_JUMP_SLOT).
  std::vector<IntFunction**> jump_slots() const {
    link_map* map = nullptr;
    REQUIRE(dlinfo(library_, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0);
    const auto value = [&](ElfW(Sxword) tag) -> ElfW(Addr) {
      for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == tag) return entry->d_un.d_ptr;
      }
      return 0;
    };
    const auto* const relocations = reinterpret_cast<const ElfW(Rela)*>(value(DT_JMPREL));
    const std::size_t count = relocations == nullptr ? 0 : value(DT_PLTRELSZ) / sizeof(ElfW(Rela));
    std::vector<IntFunction**> result;
    result.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      result.push_back(reinterpret_cast<IntFunction**>(map->l_addr + relocations[i].r_offset));
    }
    return result;
  }

  // Returns the protections of the library's mappings, in address order.
  std::string protections() const {
    std::ifstream maps("/proc/self/maps");
    std::string line;
    std::string result;
    std::string last;
    while (std::getline(maps, line)) {
      if (line.find(copy_.string()) == std::string::npos) continue;
      std::istringstream words(line);
      std::string range;
      std::string protection;
      words >> range >> protection;
      if (protection != last) result += protection + " ";
      last = protection;
    }
    return result;
  }

  IntFunction* calls_double = nullptr;
  IntFunction* calls_negate = nullptr;
  IntFunction* calls_own = nullptr;
  IntFunction* calls_through_table = nullptr;
  IntFunction** table = nullptr;
  const void* inside = nullptr;

 private:
  optrace::PrivateFolder folder_;
  std::filesystem::path copy_;
  void* library_ = nullptr;
};

const char* a_library() {
  return GENERATE(OPTRACE_IMPORTING_LAZILY, OPTRACE_IMPORTING_AT_ONCE);
}

}  // namespace

TEST_CASE("calls through a module's import tables go to the replacement, and back again") {
  const char* const path = a_library();
  const bool called_before = GENERATE(false, true);
  const bool one_module = GENERATE(true, false);
  CAPTURE(path, called_before, one_module);
  const Importing importing(path);
  const std::string protections = importing.protections();
  if (called_before) REQUIRE(importing.is_as_it_was());
  for (int round = 0; round < 3; ++round) {
    // Two calls, the table's two entries, the library's own function, and any other references.
    CHECK(agent().redirect(one_module ? importing.inside : nullptr, kAll.data(), kCount) >= 5);
    CHECK(importing.is_redirected());
    CHECK(importing.protections() == protections);
    CHECK(agent().restore(kAll.data(), kCount) == 0);
    CHECK(importing.is_as_it_was());
    CHECK(importing.protections() == protections);
  }
  CHECK(agent().counters().left_behind == 0);
}

TEST_CASE("only what is named is restored, and all by remove") {
  const Importing importing(a_library());
  REQUIRE(agent().redirect(importing.inside, kAll.data(), kCount) >= 5);
  REQUIRE(agent().restore(&kAll[1], 1) == 0);
  CHECK(importing.calls_double(1) == 1002);
  CHECK(importing.calls_negate(1) == -1);
  REQUIRE(agent().remove() == 0);
  CHECK(importing.is_as_it_was());
}

TEST_CASE("one entry is redirected once, and again only to the same replacement") {
  const Importing importing(a_library());
  REQUIRE(agent().redirect(importing.inside, kAll.data(), kCount) >= 5);
  CHECK(agent().redirect(importing.inside, kAll.data(), kCount) == 0);
  IntFunction* original = nullptr;
  const auto other = redirection("imported_double", another_double, &original);
  CHECK(agent().redirect(importing.inside, &other, 1) == -EEXIST);
  CHECK(original == nullptr);
  CHECK(importing.is_redirected());
  // A library that is loaded later has its own entries, and its own function is another one.
  const Importing later(OPTRACE_IMPORTING_AT_ONCE);
  CHECK(later.is_as_it_was());
  CHECK(agent().redirect(nullptr, kAll.data(), kCount) >= 4);
  CHECK(later.calls_double(4) == 1008);
  CHECK(later.calls_negate(4) == 996);
  CHECK(later.calls_own(4) == 5);
  CHECK(importing.is_redirected());
  CHECK(agent().restore(nullptr, 0) == 0);
  CHECK(later.is_as_it_was());
  CHECK(importing.is_as_it_was());
}

TEST_CASE("a library that is loaded later is redirected only while the earlier ones are") {
  const Importing importing(a_library());
  REQUIRE(agent().redirect(importing.inside, kAll.data(), kCount) >= 5);
  const Importing later(OPTRACE_IMPORTING_AT_ONCE);
  CHECK(agent().redirect_loaded(later.inside, kAll.data(), kCount) >= 4);
  CHECK(later.calls_double(4) == 1008);
  REQUIRE(agent().restore(nullptr, 0) == 0);
  CHECK(agent().redirect_loaded(later.inside, kAll.data(), kCount) == 0);
  CHECK(later.is_as_it_was());
  CHECK(importing.is_as_it_was());
}

TEST_CASE("what can't be redirected is refused, or found nowhere") {
  const Importing importing(a_library());
  IntFunction* original = nullptr;
  const auto unknown = redirection("imported_by_nobody", replaced_double, &original);
  CHECK(agent().redirect(importing.inside, &unknown, 1) == 0);
  CHECK(agent().redirect(nullptr, &unknown, 1) == 0);
  CHECK(original == nullptr);
  const int on_the_stack = 0;
  CHECK(agent().redirect(&on_the_stack, kAll.data(), kCount) == -ENXIO);
  CHECK(agent().redirect(importing.inside, nullptr, 1) == -EINVAL);
  CHECK(agent().redirect(importing.inside, kAll.data(), 0) == -EINVAL);
  optrace_agent_redirection incomplete = kAll[0];
  incomplete.original = nullptr;
  CHECK(agent().redirect(importing.inside, &incomplete, 1) == -EINVAL);
  CHECK(agent().restore(kAll.data(), kCount) == 0);
  CHECK(importing.is_as_it_was());
}

TEST_CASE("imports are redirected and restored while threads call through them") {
  const Importing importing(a_library());
  std::atomic<bool> over = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      while (!over.load(std::memory_order_relaxed)) {
        const int doubled = importing.calls_double(3);
        const int own = importing.calls_own(3);
        const int tabled = importing.calls_through_table(3);
        wrong += (doubled == 6 || doubled == 1006) && (own == 4 || own == 1004) &&
                         (tabled == 6 || tabled == 1006)
                     ? 0
                     : 1;
      }
    });
  }
  calls = 0;
  for (int round = 0; round < 200; ++round) {
    REQUIRE(agent().redirect(importing.inside, kAll.data(), kCount) >= 5);
    while (calls < round) std::this_thread::yield();
    REQUIRE(agent().restore(kAll.data(), kCount) == 0);
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(importing.is_as_it_was());
}

TEST_CASE("an entry that a thread binds while it is redirected is not left behind") {
  const Importing importing(OPTRACE_IMPORTING_LAZILY);
  const std::vector<IntFunction**> slots = importing.jump_slots();
  std::vector<IntFunction*> unbound;
  unbound.reserve(slots.size());
  for (IntFunction* const* const slot : slots) unbound.push_back(*slot);
  REQUIRE(agent().redirect(importing.inside, kAll.data(), kCount) >= 5);
  std::size_t bound = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (*slots[i] == unbound[i]) continue;
    IntFunction* const replacement = *slots[i];
    unbound[i](4);  // What a thread does that had read the entry before.
    CHECK(*slots[i] != replacement);
    ++bound;
  }
  CHECK(bound >= 2);
  CHECK(agent().restore(kAll.data(), kCount) == 0);
  CHECK(agent().counters().left_behind == 0);
  CHECK(importing.is_as_it_was());
}

TEST_CASE("an entry that somebody else has changed since is left alone and counted") {
  const Importing importing(OPTRACE_IMPORTING_LAZILY);
  const pid_t child = fork();  // In a child: the entry is never restored.
  if (child == 0) {
    bool good = agent().redirect(importing.inside, kAll.data(), kCount) >= 5;
    importing.table[0] = another_double;
    good = good && agent().restore(nullptr, 0) == 1 && agent().counters().left_behind == 1 &&
           agent().remove() == -EBUSY && importing.calls_through_table(7) == 7 &&
           importing.calls_double(4) == 8;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a forked child has its parent's redirections and can undo them") {
  const Importing importing(a_library());
  REQUIRE(agent().redirect(importing.inside, kAll.data(), kCount) >= 5);
  const pid_t child = fork();
  if (child == 0) {
    bool good = importing.is_redirected() && agent().remove() == 0 && importing.is_as_it_was();
    good = good && agent().redirect(importing.inside, kAll.data(), kCount) >= 5 &&
           importing.is_redirected();
    _exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(importing.is_redirected());
  REQUIRE(agent().restore(nullptr, 0) == 0);
  CHECK(importing.is_as_it_was());
}

TEST_CASE("a library that was unloaded while redirected is forgotten") {
  Importing importing(a_library());
  REQUIRE(agent().redirect(importing.inside, kAll.data(), kCount) >= 5);
  importing.unload();
  CHECK(agent().restore(nullptr, 0) == 0);
  CHECK(agent().counters().left_behind == 0);
}
