#include "report/formats/html/page_excerpts.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

namespace optrace {
namespace {

constexpr std::uint32_t kAround = 3;                            // Lines before and after.
constexpr std::size_t kMaxExcerptSize = std::size_t{2} << 20U;  // Bytes of all excerpts.
constexpr std::size_t kMaxLine = 400;                           // Bytes of a line.
constexpr std::string_view kCut = "...";

std::string cut(std::string line) {
  if (line.size() <= kMaxLine) return line;
  line.resize(kMaxLine);
  return line += kCut;
}

bool changed_since(const std::filesystem::path& file,
                   const std::optional<std::filesystem::file_time_type>& time) {
  std::error_code failed;
  return time && std::filesystem::last_write_time(file, failed) > *time;
}

std::filesystem::path path_of(const std::string& file, const ExcerptSources& sources) {
  if (!file.starts_with('/')) return find_copy(sources.copies, file);
  std::error_code failed;
  if (sources.copy_of && !std::filesystem::exists(file, failed)) return sources.copy_of(file);
  if (changed_since(file, sources.traced_before)) return {};
  return file;
}

}  // namespace

void PageExcerpts::need(const std::string& file, std::uint32_t line) {
  if (!file.empty() && line != 0) files_[file].lines.insert(line);
}

void PageExcerpts::read(const ExcerptSources& sources) {
  for (auto& [name, file] : files_) {
    if (size_ >= kMaxExcerptSize) return;
    const std::filesystem::path path = path_of(name, sources);
    if (path.empty()) continue;
    if (auto lines = read_source_lines(path)) read_file(name, file, std::move(*lines));
  }
}

void PageExcerpts::read_file(const std::string& name, NeededFile& file,
                             std::vector<std::string> lines) {
  Excerpt* excerpt = nullptr;
  std::size_t taken = 0;  // Lines up to here are in excerpts.
  const auto end_excerpt = [&] {
    if (excerpt != nullptr) file.excerpts[static_cast<std::uint32_t>(taken)] = excerpts_.size();
  };
  for (const std::uint32_t line : file.lines) {
    if (line > lines.size() || size_ >= kMaxExcerptSize) break;
    const std::size_t first = line > kAround ? line - kAround : 1;
    const std::size_t last = std::min<std::size_t>(line + std::size_t{kAround}, lines.size());
    if (excerpt == nullptr || first > taken + 1) {
      end_excerpt();
      taken = first - 1;
      excerpt = &excerpts_.emplace_back(name, static_cast<std::uint32_t>(first));
    }
    for (; taken < last; ++taken) {
      size_ += lines[taken].size();
      excerpt->lines.push_back(cut(std::move(lines[taken])));
    }
  }
  end_excerpt();
}

std::uint64_t PageExcerpts::number_of(const std::string& file, std::uint32_t line) const {
  const auto needed = files_.find(file);
  if (needed == files_.end()) return 0;
  const auto& excerpts = needed->second.excerpts;
  const auto found = excerpts.lower_bound(line);
  return found != excerpts.end() && excerpts_[found->second - 1].first <= line ? found->second : 0;
}

}  // namespace optrace
