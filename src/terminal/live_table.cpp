#include "src/terminal/live_table.h"

#include <algorithm>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "platform/text/printable_text.h"

namespace optrace {

std::vector<std::string> table_lines(const AttachProgress& progress, std::size_t height,
                                     std::size_t width) {
  const CollectorProgress& counted = progress.counted;
  std::vector<std::string> lines = {
      fmt::format("optrace: {:.0f} s, {} events, {} paths{}; Ctrl-C ends", progress.time.count(),
                  counted.events, counted.paths,
                  counted.lost > 0 ? fmt::format(", {} lost", counted.lost) : std::string())};
  std::vector<OpCount> ops = progress.ops;
  std::ranges::stable_sort(ops, std::ranges::greater(), &OpCount::calls);
  const std::size_t room = height > 3 ? height - 3 : 0;
  for (const OpCount& op : ops) {
    if (lines.size() > room && ops.size() >= lines.size()) {
      lines.push_back(fmt::format("{:>12}  more ops", ops.size() - (lines.size() - 1)));
      break;
    }
    lines.push_back(fmt::format("{:>12}  {}", op.calls, printable(op.name)));
  }
  for (std::string& line : lines)
    if (line.size() > width) line.resize(width);
  return lines;
}

void LiveTable::show(const AttachProgress& progress) {
  if (!display_.is_terminal()) return;
  winsize size{};
  constexpr unsigned short kHeight = 24, kWidth = 80;
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
    size = {kHeight, kWidth, 0, 0};
  display_.show(table_lines(progress, size.ws_row, size.ws_col));
}

}  // namespace optrace
