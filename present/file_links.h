#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "present/hyperlink_format.h"

namespace optrace {

/// A place in a file that is shown as text.
struct FilePlace {
  std::string file;        ///< As in a report: absolute, or relative to PyTorch's source tree.
  std::uint32_t line = 0;  ///< From 1; 0 if it is unknown.
  std::string url{};       ///< At the exact commit upstream; empty if there is none.
  std::uint32_t column = 0;
};

/// Chooses the targets of links to files. A C++ file of PyTorch is linked at its commit upstream. A
/// Python file, a generated file and any other file are linked on this machine if they are there.
class FileLinks {
 public:
  /// Returns the path of a report's file on this machine; empty if it is not there.
  using Find = std::function<std::filesystem::path(const std::string& file)>;

  explicit FileLinks(HyperlinkFormat format, Find find = {})
      : format_(std::move(format)), find_(std::move(find)) {}

  /// Returns a URL in printable ASCII; empty if there is nothing to link to.
  std::string url(const FilePlace& place) const;

 private:
  HyperlinkFormat format_;
  Find find_;
  mutable std::map<std::string, std::filesystem::path, std::less<>> found_;
};

}  // namespace optrace
