#include "report/formats/html/source_copies.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "pytorch/source/source_files.h"

namespace optrace {
namespace {

constexpr std::uintmax_t kMaxSourceSize = std::uintmax_t{4} << 20U;

constexpr auto kSuffixes =
    std::to_array<std::string_view>({".py", ".pyi", ".pyx", ".c", ".cc", ".cpp", ".cxx", ".cu",
                                     ".cuh", ".h", ".hh", ".hpp", ".inl", ".yaml"});

bool is_readable_source(const std::filesystem::path& file) {
  std::error_code failed;
  return std::ranges::find(kSuffixes, file.extension().string()) != kSuffixes.end() &&
         std::filesystem::is_regular_file(file, failed) &&
         std::filesystem::file_size(file, failed) <= kMaxSourceSize && !failed;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    at = end + 1;
  }
  return lines;
}

}  // namespace

SourceCopies copies_in_wheel(const std::filesystem::path& torch_folder) {
  const std::filesystem::path site_packages = torch_folder.parent_path();
  const std::filesystem::path headers = torch_folder / "include";
  return {
      {std::string(kOpsFile), site_packages / kPackagedOpsFile},
      {std::string(kDerivativesFile), site_packages / kPackagedDerivativesFile},
      {"build/aten/src/", headers},
      {"aten/src/", headers},
      {std::string(kCsrc), headers / kCsrc},
      {"c10/", headers / "c10"},
      {"", site_packages},
  };
}

std::filesystem::path find_copy(const SourceCopies& copies, std::string_view file) {
  for (const SourceCopy& copy : copies) {
    if (!file.starts_with(copy.in_source)) continue;
    const std::string_view rest = file.substr(copy.in_source.size());
    const std::filesystem::path candidate = rest.empty() ? copy.folder : copy.folder / rest;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(candidate, ignored)) return candidate;
  }
  return {};
}

std::optional<std::vector<std::string>> read_source_lines(const std::filesystem::path& file) {
  if (!is_readable_source(file)) return std::nullopt;
  try {
    const MappedFile mapped(file, MappedFile::Trust::none);
    if (mapped.size() > kMaxSourceSize) return std::nullopt;
    const std::span<const std::byte> bytes = mapped.bytes();
    return lines_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const Error&) {
    return std::nullopt;  // Empty, or replaced meanwhile.
  }
}

}  // namespace optrace
