#include "present/hyperlink_format.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>

#include <fmt/core.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/text/joined.h"
#include "platform/text/printable_text.h"

namespace optrace {
namespace {

// ripgrep's, on Unix.
constexpr auto kAliases = std::to_array<HyperlinkAlias>({
    {"cursor", "cursor://file{path}:{line}:{column}", "Cursor"},
    {"default", "file://{host}{path}", "file:// with the host's name"},
    {"file", "file://{host}{path}", "the same"},
    {"grep+", "grep+://{path}:{line}", "grep+"},
    {"kitty", "file://{host}{path}#{line}", "kitty: file:// with the line"},
    {"macvim", "mvim://open?url=file://{path}&line={line}&column={column}", "MacVim"},
    {"none", "", "no links"},
    {"textmate", "txmt://open?url=file://{path}&line={line}&column={column}", "TextMate"},
    {"vscode", "vscode://file{path}:{line}:{column}", "Visual Studio Code"},
    {"vscode-insiders", "vscode-insiders://file{path}:{line}:{column}", "VS Code Insiders"},
    {"vscodium", "vscodium://file{path}:{line}:{column}", "VSCodium"},
});

constexpr auto kVariables =
    std::to_array<std::string_view>({"path", "line", "column", "host", "wslprefix"});

constexpr std::string_view kAlphanumeric =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

[[noreturn]] void refuse(const std::string& reason) {
  std::vector<std::string_view> names;
  names.reserve(kAliases.size());
  for (const HyperlinkAlias& alias : kAliases) names.push_back(alias.name);
  throw Error(ExitStatus::usage, fmt::format("not a hyperlink format: {}", reason),
              fmt::format("Give a URL such as 'vscode://file{{path}}:{{line}}', or one of: {}.",
                          joined(names, ", ")));
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Returns the server in the Windows path of a file in the Windows Subsystem for Linux.
std::string wsl_prefix() {
  const char* const name = std::getenv("WSL_DISTRO_NAME");
  return name == nullptr || *name == '\0' ? "" : fmt::format("wsl$/{}", name);
}

bool has_scheme(std::string_view url) {
  const std::size_t colon = url.find(':');
  return colon != std::string_view::npos && colon != 0 &&
         std::all_of(url.begin(), url.begin() + static_cast<std::ptrdiff_t>(colon), [](char c) {
           return kAlphanumeric.find(c) != std::string_view::npos || c == '+' || c == '-' ||
                  c == '.';
         });
}

}  // namespace

std::span<const HyperlinkAlias> hyperlink_aliases() {
  return kAliases;
}

std::string percent_encoded(std::string_view path) {
  std::string encoded;
  for (const char c : path)
    if (kAlphanumeric.find(c) != std::string_view::npos ||
        std::string_view("-._~/:").find(c) != std::string_view::npos)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return encoded;
}

HyperlinkFormat::HyperlinkFormat(std::string_view text) {
  const auto* const alias = std::ranges::find(kAliases, text, &HyperlinkAlias::name);
  const std::string_view pattern = alias == kAliases.end() ? text : alias->pattern;
  if (pattern.empty()) return;
  parse(pattern);
  require_valid(pattern);
}

void HyperlinkFormat::parse(std::string_view pattern) {
  while (!pattern.empty()) {
    if (pattern.starts_with("{{") || pattern.starts_with("}}")) {
      add_text(pattern.substr(0, 1));
      pattern.remove_prefix(2);
    } else if (pattern.starts_with('{')) {
      const std::size_t end = pattern.find('}');
      if (end == std::string_view::npos) refuse("a '{' has no '}' after it");
      add_variable(pattern.substr(1, end - 1));
      pattern.remove_prefix(end + 1);
    } else if (pattern.starts_with('}')) {
      refuse("a '}' has no '{' before it");
    } else {
      const std::size_t end = std::min(pattern.find_first_of("{}"), pattern.size());
      add_text(pattern.substr(0, end));
      pattern.remove_prefix(end);
    }
  }
}

void HyperlinkFormat::add_text(std::string_view text) {
  if (text.empty()) return;
  if (parts_.empty() || parts_.back().variable != Variable::none) parts_.emplace_back();
  parts_.back().text += text;
}

void HyperlinkFormat::add_variable(std::string_view name) {
  if (name == "path")
    parts_.push_back({.variable = Variable::path});
  else if (name == "line")
    parts_.push_back({.variable = Variable::line});
  else if (name == "column")
    parts_.push_back({.variable = Variable::column});
  else if (name == "host")
    add_text(percent_encoded(host_name()));
  else if (name == "wslprefix")
    add_text(wsl_prefix());
  else
    refuse(fmt::format("there is no variable '{}', only {}", printable(name),
                       joined(kVariables, ", ")));
}

bool HyperlinkFormat::has(Variable variable) const {
  return std::ranges::find(parts_, variable, &Part::variable) != parts_.end();
}

void HyperlinkFormat::require_valid(std::string_view pattern) const {
  if (!has(Variable::path))
    refuse(fmt::format("'{}' lacks the variable {{path}}", printable(pattern)));
  if (has(Variable::column) && !has(Variable::line))
    refuse("the variable {column} needs the variable {line}");
  if (!has_scheme(pattern))
    refuse(
        fmt::format("'{}' does not start with a URL's scheme, such as file:", printable(pattern)));
  for (const char c : pattern)
    if (c <= ' ' || c >= 0x7F) refuse("only printable ASCII without spaces is allowed");
}

std::string HyperlinkFormat::url(const std::filesystem::path& path, std::uint32_t line,
                                 std::uint32_t column) const {
  std::string url;
  for (const Part& part : parts_) {
    switch (part.variable) {
      case Variable::none:
        url += part.text;
        break;
      case Variable::path:
        url += percent_encoded(path.native());
        break;
      case Variable::line:
        url += std::to_string(std::max(line, 1U));
        break;
      case Variable::column:
        url += std::to_string(std::max(column, 1U));
        break;
    }
  }
  return url;
}

}  // namespace optrace
