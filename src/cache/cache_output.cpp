#include "src/cache/cache_output.h"

#include <fmt/core.h>

#include "platform/files/private_folder.h"
#include "platform/text/printable_text.h"
#include "present/readable_numbers.h"

namespace optrace {
namespace {

constexpr std::size_t kFolderColumns = 18;
constexpr std::size_t kSizeColumns = 10;

std::string count_of(const CachePart& part) {
  return part.entries.size() == 1 ? "1 entry" : readable_count(part.entries.size()) + " entries";
}

}  // namespace

std::uint64_t bytes_of(const std::vector<CachePart>& parts) {
  std::uint64_t all = 0;
  for (const CachePart& part : parts) all += bytes_of(part);
  return all;
}

std::uint64_t bytes_of(const std::vector<CleanedPart>& parts) {
  std::uint64_t all = 0;
  for (const CleanedPart& part : parts) all += part.bytes;
  return all;
}

std::string to_text(const std::vector<CachePart>& parts, const TerminalStyle& style) {
  std::string text;
  for (const CachePart& part : parts) {
    if (!part.entries.empty()) {
      text += fmt::format("{}{}{}, {}\n", style.paint(padded(part.folder, kFolderColumns), kBold),
                          padded(readable_size(bytes_of(part)), kSizeColumns), part.contents,
                          count_of(part));
    }
    if (part.foreign > 0) {
      text += fmt::format("{}{}not optrace's, or a link; `optrace cache clean` leaves it alone\n",
                          padded(part.folder, kFolderColumns),
                          padded(std::to_string(part.foreign), kSizeColumns));
    }
  }
  if (text.empty()) text = "Nothing is cached.\n";
  const std::string folder = printable(cache_folder().string());
  return text + fmt::format("{} in {}\n", readable_size(bytes_of(parts)),
                            folder.empty() ? "no folder" : folder);
}

std::string to_text(const std::vector<CleanedPart>& parts) {
  std::string text;
  for (const CleanedPart& part : parts) {
    if (part.removed > 0) {
      text += fmt::format("{}{}freed\n", padded(part.folder, kFolderColumns),
                          padded(readable_size(part.bytes), kSizeColumns));
    }
    for (const KeptEntry& entry : part.kept)
      text += fmt::format("not removed: {} ({})\n", printable(entry.path.string()),
                          printable(entry.reason));
  }
  return text + fmt::format("freed {}\n", readable_size(bytes_of(parts)));
}

}  // namespace optrace
