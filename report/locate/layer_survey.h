#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "indexer/store/op_facts.h"
#include "report/locate/locate.h"

namespace optrace {

/// Where a call leaves a layer: a function, or a class with the functions that do.
struct LayerDoor {
  std::string_view name;      ///< As `optrace locate` knows it.
  std::string_view leads_to;  ///< The next layer's id; `libraries` for what is not PyTorch's.
};

/// One of the layers that PyTorch is built of.
struct MappedLayer {
  std::string_view id;  ///< `python`, `dispatcher`: for programs, and for `optrace layers LAYER`.
  std::string_view title;  ///< `Python API`
  std::string_view what;   ///< What it does, in a sentence or two.
  /// Where it lives: beginnings of paths, relative to the source tree. Of several layers' that fit
  /// a file, the longest counts.
  std::span<const std::string_view> folders;
  std::string_view ops_meant;           ///< Which ops it holds, to follow their number; or empty.
  bool (*holds)(const OpFacts& facts);  ///< Whether an op is one of those; null where none are.
  std::span<const LayerDoor> doors;
};

/// From what a user calls down to the device; beside that way stand those that lead back into it.
std::span<const MappedLayer> layer_map();

/// The layer that a file belongs to; nothing for code generators, tests, other projects.
const MappedLayer* layer_of_file(std::string_view file);

/// A layer, as an index knows it.
struct LayerSurvey {
  const MappedLayer* layer = nullptr;
  std::size_t definitions = 0;         ///< Of C++: functions, kernels, classes, stubs.
  std::size_t python_definitions = 0;  ///< Classes and functions written in Python.
  std::size_t ops = 0;
  struct Door {
    const LayerDoor* door = nullptr;
    std::optional<Located> located;  ///< Nothing where the index does not know the name.
  };
  std::vector<Door> doors;
};

/// All layers, counted.
std::vector<LayerSurvey> survey_layers(const Index& index);

}  // namespace optrace
