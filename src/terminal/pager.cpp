#include "src/terminal/pager.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "platform/process/child_process.h"
#include "platform/process/interrupt.h"
#include "platform/text/printable_text.h"
#include "src/terminal/command_words.h"
#include "src/terminal/standard_output.h"

namespace optrace {
namespace {

bool g_enabled = true;

constexpr std::string_view kLinkStart = "\x1b]8;";
constexpr std::string_view kLinkEnd = "\x1b\\";
constexpr int kFirstLessWithLinks = 566;
constexpr int kNotFound = 127;  // Of a shell that does not find the program.

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Pipe {
  Descriptor read, write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ExitStatus::failed, "cannot make a pipe: " + describe_errno(errno),
                "Use --no-pager.");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void write_pipe(const Descriptor& pipe, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(pipe.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // The user has left the pager.
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Returns the version of less; 0 if `program` is another one.
int less_version(const std::string& program) {
  if (std::filesystem::path(program).filename() != "less") return 0;
  try {
    const Pipe pipe = make_pipe();
    ChildProcess child(
        {.arguments = {program, "--version"}, .descriptors = {{pipe.write.get(), STDOUT_FILENO}}});
    child.wait();
    std::string said(64, '\0');
    constexpr std::string_view kStart = "less ";
    const ssize_t got = ::read(pipe.read.get(), said.data(), said.size());
    int version = 0;
    if (got > 0 && said.starts_with(kStart))
      std::from_chars(said.data() + kStart.size(), said.data() + got, version);
    return version;
  } catch (const Error&) {
    return 0;
  }
}

bool fits(std::string_view text) {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    return true;
  return rows_of(text, size.ws_col) < size.ws_row;  // The prompt takes a row.
}

/// Returns the pager's command line if the text needs one.
std::optional<std::vector<std::string>> pager_for(std::string_view text) {
  if (!g_enabled || ::isatty(STDOUT_FILENO) != 1 || variable("TERM") == "dumb" || fits(text))
    return std::nullopt;
  for (const char* const name : {"OPTRACE_PAGER", "PAGER"})
    if (std::getenv(name) != nullptr) return pager_command(variable(name));
  return std::vector<std::string>{"less"};
}

/// Returns false if the pager could not be started.
bool run_pager(const std::vector<std::string>& command, const std::string& text) {
  ChildProcess::Options options;
  options.arguments = command;
  options.own_process_group = false;  // It reads from the terminal.
  // Leave at the end of a short text, pass colours, leave the text on the screen: as git does.
  if (std::getenv("LESS") == nullptr) options.environment.emplace_back("LESS", "FRX");
  if (std::getenv("LV") == nullptr) options.environment.emplace_back("LV", "-c");
  try {
    Pipe pipe = make_pipe();
    options.descriptors = {{pipe.read.get(), STDIN_FILENO}};
    ChildProcess child(options);
    const IgnoredInterrupt guard;
    pipe.read.close();
    write_pipe(pipe.write, text);
    pipe.write.close();
    const int status = child.wait();
    return !WIFEXITED(status) || WEXITSTATUS(status) != kNotFound;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void disable_pager() {
  g_enabled = false;
}

std::optional<std::vector<std::string>> pager_command(const std::string& value) {
  if (value.find_first_of("|&;<>()$`*?[#~%\n") != std::string::npos)
    return std::vector<std::string>{"/bin/sh", "-c", value};
  std::vector<std::string> words = split_words(value);
  if (words.empty() || words[0].empty() || words == std::vector<std::string>{"cat"})
    return std::nullopt;
  return words;
}

std::size_t rows_of(std::string_view text, std::size_t width) {
  std::size_t rows = 0, column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++rows;
      column = 0;
    } else if (text.substr(i).starts_with(kLinkStart)) {
      i = std::min(text.find(kLinkEnd, i), text.size() - kLinkEnd.size()) + kLinkEnd.size() - 1;
    } else if (c == '\x1b') {
      i = std::min(text.find('m', i), text.size() - 1);
    } else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U && ++column > width) {
      ++rows;
      column = 1;
    }
  }
  return rows + (column != 0 ? 1 : 0);
}

std::string without_links(std::string_view text) {
  std::string plain;
  while (true) {
    const std::size_t start = text.find(kLinkStart);
    plain += text.substr(0, start);
    const std::size_t end =
        start == std::string_view::npos ? start : text.find(kLinkEnd, start + kLinkStart.size());
    if (end == std::string_view::npos) return plain;
    text.remove_prefix(end + kLinkEnd.size());
  }
}

bool write_answer(std::string_view text) {
  const std::string answer = printable_output(text);
  if (const auto command = pager_for(answer)) {
    const bool links = answer.find(kLinkStart) == std::string::npos ||
                       less_version(command->front()) >= kFirstLessWithLinks;
    if (run_pager(*command, links ? answer : without_links(answer))) return true;
  }
  return write_commands(answer);
}

}  // namespace optrace
