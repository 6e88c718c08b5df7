// The index worker. It is a separate process because a compiler front end may crash, hang or
// exhaust memory on a unit. It reads tasks from standard input and answers on standard output. With
// --clang-version it prints the version of its libclang. Without libclang it prints what is wrong
// and what to do, a line each, and exits with ExitStatus::failed.

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <clang-c/Index.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "indexer/frontend/unit_extractor.h"
#include "indexer/frontend/worker_protocol.h"
#include "platform/error.h"
#include "platform/files/whole_file.h"
#include "platform/libclang/clang_text.h"
#include "platform/libclang/libclang_loader.h"
#include "platform/programs.h"

namespace {

using namespace optrace;

using ClangIndex = std::unique_ptr<std::remove_pointer_t<CXIndex>, decltype(&clang_disposeIndex)>;
using ClangUnit = std::unique_ptr<std::remove_pointer_t<CXTranslationUnit>,
                                  decltype(&clang_disposeTranslationUnit)>;

PathMap path_map(const WorkerSetup& setup) {
  return [setup](std::string_view path) -> std::optional<std::string> {
    const std::string normal = std::filesystem::path(path).lexically_normal().string();
    const auto lies_in = [&](const std::string& folder) {
      return normal.size() > folder.size() + 1 && normal.starts_with(folder) &&
             normal[folder.size()] == '/';
    };
    for (const auto& folder : setup.left_out)
      if (lies_in(folder)) return std::nullopt;
    for (const auto& [folder, name] : setup.folders) {
      if (lies_in(folder)) {
        std::string inside = normal.substr(folder.size() + 1);
        return name.empty() ? inside : fmt::format("{}/{}", name, inside);
      }
    }
    return std::nullopt;
  };
}

void count_errors(CXTranslationUnit unit, UnitStatus& status) {
  for (unsigned number = 0; number < clang_getNumDiagnostics(unit); ++number) {
    const std::unique_ptr<void, decltype(&clang_disposeDiagnostic)> diagnostic(
        clang_getDiagnostic(unit, number), &clang_disposeDiagnostic);
    if (clang_getDiagnosticSeverity(diagnostic.get()) < CXDiagnostic_Error) continue;
    if (++status.errors == 1) {
      const CXString text =
          clang_formatDiagnostic(diagnostic.get(), CXDiagnostic_DisplaySourceLocation);
      status.first_error = clang_getCString(text);
      clang_disposeString(text);
    }
  }
}

// Appends the files that a unit read. Files read through its precompiled header belong to the
// header.
void append_inclusions(CXTranslationUnit unit, std::string& text) {
  clang_getInclusions(
      unit,
      [](CXFile file, CXSourceLocation*, unsigned, CXClientData client) {
        const CXString name = clang_getFileName(file);
        append_inclusion(clang_getCString(name), *static_cast<std::string*>(client));
        clang_disposeString(name);
      },
      &text);
}

// The line to write when memory runs out, prepared in advance.
std::string& last_words() {
  static std::string line;
  return line;
}

[[noreturn]] void end_out_of_memory() {
  const std::string& line = last_words();
  const ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
  ::_exit(written < 0 ? 1 : static_cast<int>(ExitStatus::failed));
}

std::uint64_t memory_limit = 0;  // In bytes; 0: no limit.

// Returns the number of bytes that RLIMIT_DATA counts. Async-signal-safe.
std::uint64_t memory_held() {
  constexpr int kField = 5;  // Of /proc/self/statm, in pages.
  std::array<char, 256> text{};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  const ssize_t size = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  const char* at = text.data();
  const char* const end = at + std::max<ssize_t>(size, 0);
  for (int field = 0; field < kField && at != end; ++at)
    if (*at == ' ') ++field;
  std::uint64_t pages = 0;
  std::from_chars(at, end, pages);
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// libclang crashes in some places where an allocation fails.
void end_at_crash(int signal) {
  if (memory_held() > memory_limit / 4 * 3) end_out_of_memory();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// Limits the memory of the process, except for mapped files such as precompiled headers.
void limit_memory(std::uint64_t bytes) {
  if (bytes == 0) return;
  memory_limit = bytes;
  const rlimit limit{bytes, bytes};
  if (::setrlimit(RLIMIT_DATA, &limit) != 0) {
    throw Error(ExitStatus::failed,
                fmt::format("cannot limit a worker's memory: {}", describe_errno(errno)),
                "Try again without a memory limit.");
  }
  std::set_new_handler(&end_out_of_memory);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT}) ::signal(signal, &end_at_crash);
}

class Worker {
 public:
  /// `arguments` are those that libclang needs in each call (libclang_loader.h).
  Worker(const WorkerSetup& setup, std::vector<std::string> arguments)
      : arguments_(std::move(arguments)),
        index_(clang_createIndex(/*excludeDeclarationsFromPCH=*/1, /*displayDiagnostics=*/0),
               &clang_disposeIndex),
        extractor_(
            path_map(setup),
            [this](const IndexContents::Function& function) { append_function(function, found_); },
            [this](const IndexContents::Registration& registration) {
              append_registration(registration, found_);
            }) {}

  UnitStatus run(const UnitTask& task) {
    UnitStatus status;
    status.number = task.number;
    status.outcome = UnitOutcome::out_of_memory;
    last_words() = to_line(status);
    status.outcome = UnitOutcome::not_parsed;
    std::vector<const char*> arguments;
    arguments.reserve(arguments_.size() + task.arguments.size());
    for (const auto* part : {&std::as_const(arguments_), &task.arguments})
      for (const auto& argument : *part) arguments.push_back(argument.c_str());
    // Incomplete: function templates are not instantiated, which saves a third of the time. Only
    // the templates themselves are walked.
    unsigned options = CXTranslationUnit_KeepGoing | CXTranslationUnit_Incomplete;
    if (!task.precompiled.empty()) options |= CXTranslationUnit_ForSerialization;
    CXTranslationUnit parsed = nullptr;
    clang_parseTranslationUnit2(index_.get(), task.source.c_str(), arguments.data(),
                                static_cast<int>(arguments.size()), nullptr, 0, options, &parsed);
    const ClangUnit unit(parsed, &clang_disposeTranslationUnit);
    if (parsed == nullptr) {
      // If malloc fails rather than `new`, libclang gives up on the unit and leaks its memory.
      if (memory_limit != 0 && memory_held() > memory_limit / 2)
        status.outcome = UnitOutcome::out_of_memory;
      return status;
    }
    count_errors(parsed, status);
    found_.clear();
    extractor_.extract(parsed);
    append_inclusions(parsed, found_);
    write_file(task.result, found_);
    status.outcome = UnitOutcome::done;
    if (!task.precompiled.empty() &&
        clang_saveTranslationUnit(parsed, task.precompiled.c_str(),
                                  clang_defaultSaveOptions(parsed)) != CXSaveError_None) {
      status.outcome = UnitOutcome::not_saved;
    }
    return status;
  }

 private:
  std::vector<std::string> arguments_;
  ClangIndex index_;
  std::string found_;
  UnitExtractor extractor_;
};

}  // namespace

int optrace::index_worker_main(int count, char** arguments) {
  std::vector<std::string> clang_arguments;
  try {
    clang_arguments = load_libclang();
  } catch (const Error& error) {
    std::cerr << error.what() << '\n' << error.remedy() << '\n';
    return static_cast<int>(ExitStatus::failed);
  }
  if (count > 1 && std::string_view(arguments[1]) == "--clang-version") {
    std::cout << take(clang_getClangVersion()) << '\n';
    return static_cast<int>(ExitStatus::done);
  }
  // The worker ends with the command, even if the command is killed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    std::string line;
    if (!std::getline(std::cin, line)) return static_cast<int>(ExitStatus::failed);
    const WorkerSetup setup = parse_setup(line);
    // Before libclang installs its own signal handlers, which pass on what they don't recover from.
    limit_memory(setup.memory_limit);
    Worker worker(setup, std::move(clang_arguments));
    while (std::getline(std::cin, line)) {
      const UnitStatus status = worker.run(parse_task(line));
      std::cout << to_line(status) << std::flush;
      if (status.outcome == UnitOutcome::out_of_memory) return static_cast<int>(ExitStatus::failed);
    }
    return static_cast<int>(ExitStatus::done);
  } catch (const std::exception& error) {
    std::cerr << "optrace-index-worker: " << error.what() << '\n';
    return static_cast<int>(ExitStatus::failed);
  }
}
