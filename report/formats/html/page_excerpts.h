#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/formats/html/source_copies.h"

namespace optrace {

/// Consecutive lines of a source file.
struct Excerpt {
  std::string file;         ///< As in the report.
  std::uint32_t first = 0;  ///< The number of the first line, from 1.
  std::vector<std::string> lines;
};

/// Where the lines come from.
struct ExcerptSources {
  SourceCopies copies;  ///< For files of PyTorch. The program's own have absolute paths.
  /// Files of the program that changed later have other lines, and are left out.
  std::optional<std::filesystem::file_time_type> traced_before;
  /// Returns the copy of a file with an absolute path that is no longer there; empty if there is
  /// none.
  std::function<std::filesystem::path(const std::filesystem::path&)> copy_of;
};

/// The lines of source around those that a page's frames need. Their total size is limited; files
/// of the program come first.
class PageExcerpts {
 public:
  void need(const std::string& file, std::uint32_t line);

  /// Reads what is needed.
  void read(const ExcerptSources& sources);

  /// Returns the number, from 1, of the excerpt with a line; 0 if there is none.
  std::uint64_t number_of(const std::string& file, std::uint32_t line) const;

  const std::vector<Excerpt>& all() const { return excerpts_; }

 private:
  struct NeededFile {
    std::set<std::uint32_t> lines;
    std::map<std::uint32_t, std::size_t> excerpts;  ///< Numbers of excerpts, by their last line.
  };

  void read_file(const std::string& name, NeededFile& file, std::vector<std::string> lines);

  std::map<std::string, NeededFile, std::less<>> files_;
  std::vector<Excerpt> excerpts_;
  std::size_t size_ = 0;  ///< Bytes of all lines.
};

}  // namespace optrace
