#include "indexer/store/source_link.h"

#include <algorithm>

#include <fmt/core.h>

#include "pytorch/source/source_files.h"

namespace optrace {
namespace {

constexpr std::string_view kRepository = "https://github.com/pytorch/pytorch/blob";

bool is_commit(std::string_view text) {
  return text.size() == 40 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_release(std::string_view version) {
  return !version.empty() && version.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace

SourceLink::SourceLink(std::string_view git_version, std::string_view torch_version) {
  const std::string_view release = without_local_version(torch_version);
  if (is_commit(git_version))
    revision_ = git_version;
  else if (is_release(release))
    revision_ = fmt::format("v{}", release);
}

std::string SourceLink::link(std::string_view file, std::uint32_t line) const {
  if (revision_.empty() || file.empty() || file.starts_with('/')) return {};
  if (is_generated_source(file) || file.starts_with("third_party/")) return {};
  // Only characters that occur in such paths are allowed in a link.
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+").find(c) != std::string_view::npos;
  };
  if (!std::ranges::all_of(file, is_plain)) return {};
  const std::string url = fmt::format("{}/{}/{}", kRepository, revision_, file);
  return line == 0 ? url : url_of_line(url, line);
}

std::string SourceLink::of_native(std::string_view file, std::uint32_t line) const {
  return link(file, line);
}

std::string SourceLink::of_python(std::string_view file, std::uint32_t line) const {
  return is_file_of_torch(file) ? link(file, line) : std::string();
}

std::string url_of_line(const std::string& url, std::uint32_t line) {
  return url.empty() ? std::string() : fmt::format("{}#L{}", url.substr(0, url.rfind("#L")), line);
}

std::string_view without_local_version(std::string_view torch_version) {
  return torch_version.substr(0, torch_version.find('+'));
}

bool is_exact_source(const Index& index, std::string_view torch_version,
                     std::string_view git_version) {
  if (is_commit(index.git_version()) && is_commit(git_version))
    return index.git_version() == git_version;
  return !index.torch_version().empty() &&
         index.torch_version() == without_local_version(torch_version);
}

bool made_from_wheel(const Index& index) {
  return index.note("made_from") == made_from(true);
}

IndexMatch match_of(const Index& index, bool of_torch) {
  const bool from_wheel = made_from_wheel(index);
  return {of_torch, from_wheel, of_torch && !from_wheel && !index.has_approximate_lines()};
}

std::string_view made_from(bool from_wheel) {
  return from_wheel ? "wheel" : "source";
}

std::string relative_to_torch(std::string_view file, std::string_view torch_folder) {
  const std::size_t slash = torch_folder.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return std::string(file);
  const std::string_view parent = torch_folder.substr(0, slash + 1);
  return std::string(file.starts_with(parent) ? file.substr(parent.size()) : file);
}

}  // namespace optrace
