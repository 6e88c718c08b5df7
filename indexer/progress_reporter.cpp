#include "indexer/progress_reporter.h"

#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace optrace {
namespace {

std::string duration(double seconds) {
  const long whole = std::lround(seconds);
  return whole < 60 ? fmt::format("{} s", whole)
                    : fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

}  // namespace

ProgressReporter::ProgressReporter() : terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressReporter::~ProgressReporter() {
  clear_bar();
}

void ProgressReporter::clear_bar() {
  if (bar_shown_) {
    fmt::print(stderr, "\r\033[K");
    bar_shown_ = false;
  }
}

void ProgressReporter::begin(const std::string& step) {
  clear_bar();
  step_ = step;
  started_ = Clock::now();
  drawn_ = {};
  tenths_ = 0;
  fmt::print(stderr, "{}\n", step);
}

void ProgressReporter::update(std::size_t done, std::size_t total) {
  if (total == 0) {
    return;
  }
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const std::string remaining =
      done > 0 && rate > 0 ? duration(static_cast<double>(total - done) / rate) : "?";
  if (!terminal_) {
    if (done * 10 / total > tenths_) {
      tenths_ = done * 10 / total;
      fmt::print(stderr, "  {} of {} ({:.1f} a second, {} left)\n", done, total, rate, remaining);
    }
    return;
  }
  if (now - drawn_ < std::chrono::milliseconds(100) && done < total) {
    return;
  }
  drawn_ = now;
  constexpr std::size_t kWidth = 30;
  const std::size_t filled = done * kWidth / total;
  fmt::print(stderr, "\r\033[K  [{:#<{}}{:.<{}}] {}/{}  {:.1f}/s  {} left", "", filled, "",
             kWidth - filled, done, total, rate, remaining);
  std::fflush(stderr);
  bar_shown_ = true;
}

}  // namespace optrace
