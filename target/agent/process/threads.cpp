#include "target/agent/process/threads.h"

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

#include "target/agent/process/own_file.h"

namespace optrace::agent {
namespace {

constexpr int kMaxWaits = 50;
constexpr long kWaitNanoseconds = 2'000'000;

struct LinuxDirent {
  std::uint64_t inode;
  std::int64_t next;
  std::uint16_t size;
  std::uint8_t type;
  char name[1];
};

// Calls visit(name) for each task of the process until it returns false. Returns false if the list
// can't be read. Does not use opendir, which allocates.
template <typename Visit>
bool for_each_task(Visit visit) {
  const OwnFile folder("/proc/self/task", O_RDONLY | O_DIRECTORY);
  if (!folder) return false;
  alignas(LinuxDirent) char entries[4096];
  long got = 0;
  bool more = true;
  while (more && (got = syscall(SYS_getdents64, folder.number(), entries, sizeof(entries))) > 0) {
    for (long at = 0; more && at < got;) {
      const auto* entry = reinterpret_cast<const LinuxDirent*>(entries + at);
      more = entry->name[0] == '.' || visit(entry->name);
      at += entry->size;
    }
  }
  return got >= 0;
}

// Reads a file of a task's directory. Returns the number of bytes, or 0 or less if the task has
// ended.
ssize_t read_of_task(const char* task, const char* name, char* text, std::size_t room) {
  static constexpr char kFolder[] = "/proc/self/task/";
  char path[64] = {};
  const std::size_t digits = strnlen(task, 16);
  std::memcpy(path, kFolder, sizeof(kFolder) - 1);
  std::memcpy(path + sizeof(kFolder) - 1, task, digits);
  std::memcpy(path + sizeof(kFolder) - 1 + digits, name, strnlen(name, 16));
  const OwnFile file(path, O_RDONLY);
  const ssize_t size = file ? read(file.number(), text, room - 1) : 0;
  text[size > 0 ? size : 0] = '\0';
  return size;
}

// Returns true if SIGTRAP is in this signal set of a task's status ("SigPnd", "SigBlk").
bool has_trap_in(const char* set, const char* task) {
  char text[4096];
  if (read_of_task(task, "/status", text, sizeof(text)) <= 0) return false;
  const char* const line = std::strstr(text, set);
  if (line == nullptr) return false;
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

bool others_make_system_calls() {
  constexpr int kMaxTasks = 512;
  struct Unseen {
    char task[16];
  };
  static Unseen unseen[kMaxTasks];  // Static: only one call of the agent runs at a time.
  int count = 0;
  bool fits = true;
  char own[16] = {};
  std::snprintf(own, sizeof(own), "%ld", syscall(SYS_gettid));
  const bool known = for_each_task([&](const char* task) {
    if (std::strcmp(task, own) != 0) {
      fits = count < kMaxTasks;
      if (fits) {
        std::memcpy(unseen[count].task, task, strnlen(task, 15) + 1);
        ++count;
      }
    }
    return fits;
  });
  if (!known || !fits) return false;
  for (int tries = 0; tries < kMaxWaits && count > 0; ++tries) {
    for (int i = 0; i < count;) {
      // The content is "running", or "-1 ..." in a page fault, or a system call number; empty if
      // the task has ended.
      char text[256];
      const ssize_t size = read_of_task(unseen[i].task, "/syscall", text, sizeof(text));
      const bool seen = size <= 0 || (text[0] >= '0' && text[0] <= '9');
      if (seen)
        unseen[i] = unseen[--count];
      else
        ++i;
    }
    if (count > 0) {
      const timespec pause{0, kWaitNanoseconds};
      nanosleep(&pause, nullptr);
    }
  }
  return count == 0;
}

bool all_take_traps() {
  constexpr int kMaxTries = 1000;
  bool all = false;
  for (int tries = 0; tries < kMaxTries && !all; ++tries) {
    if (tries > 0) {
      const timespec pause{0, kWaitNanoseconds};
      nanosleep(&pause, nullptr);
    }
    all = true;
    const bool known = for_each_task([&all](const char* task) {
      all = !has_trap_in("\nSigBlk:", task);
      return all;
    });
    all = all && known;
  }
  return all;
}

void wait_for_pending_traps() {
  if (only_thread()) return;
  for (int i = 0; i < kMaxWaits; ++i) {
    // Pause first, for a thread that has hit a trap whose signal is not raised yet.
    const timespec pause{0, kWaitNanoseconds};
    nanosleep(&pause, nullptr);
    bool pending = false;
    for_each_task([&pending](const char* task) {
      pending = has_trap_in("\nSigPnd:", task);
      return !pending;
    });
    if (!pending) return;
  }
}

}  // namespace optrace::agent
