#include "pytorch/installed/torch_version.h"

#include <cstddef>

#include "platform/files/settings_text.h"

namespace optrace {
namespace {

/// Returns the contents of a string literal; nullopt for anything that doesn't begin as one. A
/// literal without its closing quote is returned with the opening one.
std::optional<std::string> string_in(std::string_view value) {
  if (value.empty() || (value.front() != '\'' && value.front() != '"')) return std::nullopt;
  const std::size_t end = value.find(value.front(), 1);
  return std::string(end == std::string_view::npos ? value : value.substr(1, end - 1));
}

}  // namespace

TorchVersion parse_torch_version(std::string_view text) {
  return {.text = std::string(text),
          .version = string_in(assigned_value(text, "__version__")),
          .git_version = string_in(assigned_value(text, "git_version")),
          .cuda = string_in(assigned_value(text, "cuda"))};
}

std::optional<TorchVersion> read_torch_version(const std::filesystem::path& torch_folder) {
  const auto text = read_settings(torch_folder / "version.py");
  if (!text) return std::nullopt;
  return parse_torch_version(*text);
}

}  // namespace optrace
