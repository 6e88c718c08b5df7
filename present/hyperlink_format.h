#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// A pattern with a name of its own, which the user may give instead.
struct HyperlinkAlias {
  std::string_view name;
  std::string_view pattern;
  std::string_view description;  ///< For the documentation.
};

/// Returns the aliases of ripgrep's --hyperlink-format, sorted by name.
std::span<const HyperlinkAlias> hyperlink_aliases();

/// The form of links to files on this machine, with the semantics of ripgrep's --hyperlink-format:
/// an alias, or a URL with the variables {path}, {line}, {column}, {host} and {wslprefix}; `{{` and
/// `}}` stand for braces. A pattern needs {path}, one with {column} also {line}.
class HyperlinkFormat {
 public:
  /// No links.
  HyperlinkFormat() = default;

  /// Throws Error(usage) for text that is neither an alias nor a valid pattern.
  explicit HyperlinkFormat(std::string_view text);

  bool empty() const { return parts_.empty(); }

  /// Returns the link to a place in a file, in printable ASCII. `path` is absolute; line and column
  /// count from 1, and 0 stands for the first one.
  std::string url(const std::filesystem::path& path, std::uint32_t line,
                  std::uint32_t column = 0) const;

 private:
  enum class Variable : std::uint8_t { none, path, line, column };
  struct Part {
    Variable variable = Variable::none;
    std::string text{};  // Without a variable.
  };

  void parse(std::string_view pattern);
  void add_text(std::string_view text);
  void add_variable(std::string_view name);
  bool has(Variable variable) const;
  void require_valid(std::string_view pattern) const;

  std::vector<Part> parts_;
};

/// Percent-encodes everything in a path but unreserved characters, `/` and `:` (RFC 3986).
std::string percent_encoded(std::string_view path);

}  // namespace optrace
