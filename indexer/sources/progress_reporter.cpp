#include "indexer/sources/progress_reporter.h"

#include <cmath>
#include <cstdio>

#include <fmt/core.h>

#include "platform/text/printable_text.h"

namespace optrace {
namespace {

std::string duration(double seconds) {
  const long whole = std::lround(seconds);
  return whole < 60 ? fmt::format("{} s", whole)
                    : fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

// Formats a rate; below one per second, the time for each.
std::string pace(double rate) {
  return rate >= 1 ? fmt::format("{:.1f} per second", rate)
                   : fmt::format("{:.1f} s each", 1 / rate);
}

}  // namespace

void ProgressReporter::begin(const std::string& step) {
  bar_.erase();
  step_ = step;
  started_ = Clock::now();
  drawn_ = {};
  tenths_ = 0;
  fmt::print(stderr, "{}\n", printable_lines(step));
}

void ProgressReporter::update(std::size_t done, std::size_t total) {
  if (total == 0) return;
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string how_long;
  if (done == total) {
    how_long = "in " + duration(seconds);
  } else if (rate > 0) {
    how_long = fmt::format("{}, {} left", pace(rate),
                           duration(std::ceil(static_cast<double>(total - done) / rate)));
  }
  if (!bar_.is_terminal()) {
    if (done * 10 / total > tenths_) {
      tenths_ = done * 10 / total;
      fmt::print(stderr, "  {} of {} ({})\n", done, total, how_long);
    }
    return;
  }
  if (now - drawn_ < std::chrono::milliseconds(100) && done < total) return;
  drawn_ = now;
  constexpr std::size_t kWidth = 30;
  const std::size_t filled = done * kWidth / total;
  bar_.show(fmt::format("  [{:#<{}}{:.<{}}] {}/{}  {}", "", filled, "", kWidth - filled, done,
                        total, how_long));
}

}  // namespace optrace
