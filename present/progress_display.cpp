#include "present/progress_display.h"

#include <cstdio>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include "platform/text/printable_text.h"

namespace optrace {

ProgressDisplay::ProgressDisplay() : terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressDisplay::~ProgressDisplay() {
  erase();
}

void ProgressDisplay::show_step(std::string_view step) {
  if (step.empty())
    erase();
  else
    show(printable(step) + " ...");
}

void ProgressDisplay::show(std::string_view line) {
  if (!terminal_) return;
  line_shown_ = true;
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
}

void ProgressDisplay::show_below_output(std::string_view line) {
  if (!terminal_) return;
  line_shown_ = true;
  fmt::print(stderr, "\r\x1b[K{}\r", line);
  std::fflush(stderr);
}

void ProgressDisplay::show(const std::vector<std::string>& lines) {
  if (!terminal_) return;
  erase();
  for (const std::string& line : lines) fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
  lines_above_ = lines.size();
}

void ProgressDisplay::erase() {
  if (std::exchange(line_shown_, false)) fmt::print(stderr, "\r\x1b[K");
  if (const std::size_t lines = std::exchange(lines_above_, 0); lines > 0)
    fmt::print(stderr, "\x1b[{}A\r\x1b[J", lines);
  std::fflush(stderr);
}

}  // namespace optrace
