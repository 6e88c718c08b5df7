#include "platform/files/settings_text.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <system_error>

#include "platform/text/ascii_text.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxFileLength = 64 << 10;

}  // namespace

std::optional<std::string> read_settings(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return std::nullopt;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string text(kMaxFileLength, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

std::string_view assigned_value(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view left = line.substr(0, std::min(line.find(':'), equals));
    if (trimmed(left) == name) return trimmed(line.substr(equals + 1));
  }
  return {};
}

}  // namespace optrace
