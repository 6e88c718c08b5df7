#include "tracer/agent/threads.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace optrace::agent {

namespace {

constexpr int kMostWaits = 50;
constexpr long kWaitNanoseconds = 2'000'000;

struct LinuxDirent {
  std::uint64_t inode;
  std::int64_t next;
  std::uint16_t size;
  std::uint8_t type;
  char name[1];
};

// Calls visit(name) for each task of the process until it returns false. False when the list can't
// be read. opendir would allocate.
template <typename Visit>
bool for_each_task(Visit visit) {
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    return false;
  }
  alignas(LinuxDirent) char entries[4096];
  long got = 0;
  bool more = true;
  while (more && (got = syscall(SYS_getdents64, folder, entries, sizeof(entries))) > 0) {
    for (long at = 0; more && at < got;) {
      const auto* entry = reinterpret_cast<const LinuxDirent*>(entries + at);
      more = entry->name[0] == '.' || visit(entry->name);
      at += entry->size;
    }
  }
  close(folder);
  return got >= 0;
}

// Whether SIGTRAP is in one of the signal sets of a task's status ("SigPnd", "SigBlk").
bool has_trap_in(const char* set, const char* task) {
  static constexpr char kFolder[] = "/proc/self/task/";
  static constexpr char kFile[] = "/status";
  char path[64] = {};
  const std::size_t digits = strnlen(task, 16);
  std::memcpy(path, kFolder, sizeof(kFolder) - 1);
  std::memcpy(path + sizeof(kFolder) - 1, task, digits);
  std::memcpy(path + sizeof(kFolder) - 1 + digits, kFile, sizeof(kFile));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return false;  // It has ended.
  }
  char text[4096];
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  if (size <= 0) {
    return false;
  }
  text[size] = '\0';
  const char* const line = std::strstr(text, set);
  if (line == nullptr) {
    return false;
  }
  return (std::strtoull(line + std::strlen(set), nullptr, 16) >> (SIGTRAP - 1) & 1) != 0;
}

}  // namespace

bool only_thread() {
  int tasks = 0;
  const bool known = for_each_task([&tasks](const char*) {
    ++tasks;
    return tasks < 2;
  });
  return known && tasks == 1;
}

bool all_take_traps() {
  bool all = true;
  const bool known = for_each_task([&all](const char* task) {
    all = !has_trap_in("\nSigBlk:", task);
    return all;
  });
  return known && all;
}

void wait_for_pending_traps() {
  if (only_thread()) {
    return;
  }
  for (int i = 0; i < kMostWaits; ++i) {
    // First of all a pause, for a thread that is still on its way from the trap to the signal.
    const timespec pause{0, kWaitNanoseconds};
    nanosleep(&pause, nullptr);
    bool pending = false;
    for_each_task([&pending](const char* task) {
      pending = has_trap_in("\nSigPnd:", task);
      return !pending;
    });
    if (!pending) {
      return;
    }
  }
}

}  // namespace optrace::agent
