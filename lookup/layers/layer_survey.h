#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "indexer/store/op_facts.h"
#include "lookup/locate/locate.h"

namespace optrace {

/// A function through which calls leave a layer, or a class with such functions.
struct LayerExit {
  std::string_view name;      ///< Name to look up with `optrace locate`.
  std::string_view leads_to;  ///< Id of the next layer; `libraries` for code outside of PyTorch.
};

/// One of the layers of PyTorch.
struct MappedLayer {
  std::string_view id;  ///< `python`, `dispatcher`: used by programs and by `optrace layers LAYER`.
  std::string_view title;  ///< `Python API`
  std::string_view what;   ///< Its purpose, in a sentence or two.
  /// Prefixes of the paths of its files, relative to the source tree. A file belongs to the layer
  /// with the longest matching prefix.
  std::span<const std::string_view> folders;
  std::string_view ops_meant;           ///< Describes its ops, after their number; or empty.
  bool (*holds)(const OpFacts& facts);  ///< Returns true for these ops; null if there are none.
  std::span<const LayerExit> exits;
};

/// Returns all layers, from the users' API down to the device. Layers beside this path lead back
/// into it.
std::span<const MappedLayer> layer_map();

/// Returns the layer of a file; null for code generators, tests and other projects.
const MappedLayer* layer_of_file(std::string_view file);

/// The contents of a layer in an index.
struct LayerSurvey {
  const MappedLayer* layer = nullptr;
  std::size_t definitions = 0;         ///< C++ functions, kernels, classes and stubs.
  std::size_t python_definitions = 0;  ///< Classes and functions written in Python.
  std::size_t ops = 0;
  struct Exit {
    const LayerExit* function = nullptr;
    std::optional<Located> located;  ///< Empty if the index does not contain the name.
  };
  std::vector<Exit> exits;
};

/// Counts the definitions and ops of all layers.
std::vector<LayerSurvey> survey_layers(const Index& index);

}  // namespace optrace
