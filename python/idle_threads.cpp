#include "python/idle_threads.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace optrace {
namespace {

/// `/proc/self/task/N/syscall`: "running", or a system call's number, its six arguments, the stack
/// pointer and the instruction pointer; the number in decimal, the rest in hexadecimal (proc(5)).
bool sleeps_without_limit(const std::filesystem::path& task) {
  std::ifstream file(task / "syscall");
  long number = -1;
  std::string word;
  if (!(file >> number) || number != SYS_futex) return false;
  std::uint64_t operation = 0, limit = 0;
  for (int argument = 0; argument < 4; ++argument) {
    if (!(file >> word)) return false;
    const std::uint64_t value = std::strtoull(word.c_str(), nullptr, 16);
    if (argument == 1) operation = value;
    if (argument == 3) limit = value;
  }
  operation &= static_cast<unsigned>(FUTEX_CMD_MASK);
  return (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) && limit == 0;
}

}  // namespace

bool other_threads_are_idle() {
  const std::string own = std::to_string(::gettid());
  std::error_code error;
  std::filesystem::directory_iterator task("/proc/self/task", error);
  for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
    if (task->path().filename() != own && !sleeps_without_limit(task->path())) return false;
  }
  return !error;
}

}  // namespace optrace
