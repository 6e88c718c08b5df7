#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "indexer/store/index_contents.h"

namespace optrace {

/// A line of one version of a file, carried over to another version.
struct MappedLine {
  std::uint32_t line = 0;
  std::optional<LineInterval> approximate{};  ///< Nothing if the line is exact.
};

/// Carries lines of one version of PyTorch over to another one, by the anchors of both: an anchor
/// that exists in both versions tells by how many lines its place has moved. A line is exact if the
/// nearest anchors before and after it have moved alike and no other anchor lies between them in
/// either version, or if it is the line of such an anchor. Before the first anchor, which must not
/// have moved then, a file starts at line 1 in both versions.
class AnchorAlignment {
 public:
  /// Both lists are sorted by file and line.
  AnchorAlignment(std::span<const IndexedAnchor> from, std::span<const IndexedAnchor> to);

  /// Returns true if the other version has anchors in this file.
  bool has(const std::string& file) const { return files_.contains(file); }

  /// Returns true if the first version has anchors in this file and the other one has none: the
  /// file was removed or renamed.
  bool is_gone(const std::string& file) const;

  /// Returns the line in the other version. A file without common anchors has unchanged lines
  /// without bounds.
  MappedLine carry(const std::string& file, std::uint32_t line) const;

 private:
  /// An anchor that both versions have, and whether others lie between it and the one before.
  struct Pair {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    bool adjacent = false;
  };
  struct File {
    std::vector<Pair> pairs;
    bool in_first = false;
    bool in_other = false;
  };

  static std::vector<Pair> align(std::span<const IndexedAnchor> from,
                                 std::span<const IndexedAnchor> to);

  std::unordered_map<std::string, File> files_;
};

}  // namespace optrace
