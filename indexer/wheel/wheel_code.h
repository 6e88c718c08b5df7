#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "indexer/store/index_contents.h"

namespace optrace {

/// An anchor in the wheel's code (platform/elf/source_anchors.h).
struct WheelAnchor {
  IndexedAnchor place;
  std::string message;  ///< The literal message without its place; empty if there is none.
  auto operator<=>(const WheelAnchor&) const = default;
};

/// A function of the wheel that tells its own place.
struct AnchoredFunction {
  std::string symbol;            ///< Canonical.
  std::string file;              ///< Relative to the source tree.
  std::uint32_t first_line = 0;  ///< Of its anchors.
};

/// What the libraries of a torch wheel tell about its source: the names of its functions and the
/// anchors in their code.
class WheelCode {
 public:
  /// Reads the libraries in `torch_folder`/lib. Throws Error(usage) if they can't be read or have
  /// no symbol table.
  static WheelCode read(const std::filesystem::path& torch_folder);

  /// Returns true if the wheel contains a function with this key (function_key in symbol_key.h).
  bool contains(std::string_view key) const;

  /// Returns the canonical symbols of the functions with these names (template_key in
  /// symbol_key.h); null if there are none. Instances of templates are left out.
  const std::vector<std::string>* named(const std::string& names) const;

  /// The anchors in files of PyTorch, sorted by file and line, without duplicates.
  const std::vector<WheelAnchor>& anchors() const { return anchors_; }

  /// The places of the anchors, as an index stores them.
  std::vector<IndexedAnchor> places() const;

  /// The functions in whose code an anchor names them, sorted by symbol.
  const std::vector<AnchoredFunction>& anchored() const { return anchored_; }

 private:
  std::unordered_set<std::uint64_t> keys_;  // Hashes.
  std::unordered_map<std::string, std::vector<std::string>> by_names_;
  std::vector<WheelAnchor> anchors_;
  std::vector<AnchoredFunction> anchored_;
};

}  // namespace optrace
