#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"

namespace optrace {

/// A property of an op that two versions of PyTorch have differently.
struct OpChange {
  enum class Kind : std::uint8_t {
    schema,
    property,      ///< `key` is its name: variants, tags, structured, generated from.
    kernel,        ///< The kernel of native_functions.yaml for a dispatch key.
    derivative,    ///< A formula of derivatives.yaml.
    registration,  ///< The functions registered for a dispatch key.
  };
  Kind kind = Kind::schema;
  std::string key;     ///< A dispatch key, or as above. Of a derivative: its key and arguments.
  std::string before;  ///< Empty if only the second version has it.
  std::string after;   ///< Empty if only the first version has it.
};

/// Returns the name used in the output: "schema", "property", ...
std::string_view name_of(OpChange::Kind kind);

/// An op of one or both versions.
struct ComparedOp {
  std::string name;    ///< `aten::add.Tensor`
  std::string schema;  ///< Of an added or removed op; empty if unknown.
  std::string file;    ///< Where that op is declared; empty if unknown.
  std::uint32_t line = 0;
  std::vector<OpChange> changes;  ///< Of an op that both have.
};

/// A decomposition or reference implementation in Python: `torch._decomp.decompositions.elu`.
struct PythonDecomposition {
  std::string name;
  std::string file;
  std::uint32_t line = 0;
};

/// The differences between the ops of two versions of PyTorch.
struct SourceComparison {
  // Each is sorted by name.
  std::vector<ComparedOp> added, removed, changed;
  std::vector<OpChange> fallbacks;  ///< Of a dispatch key, for all ops.
  std::vector<PythonDecomposition> decompositions_added, decompositions_removed;
  /// What could not be compared, because one of the indexes lacks it, as sentences. Differences may
  /// be missing then.
  std::vector<std::string> not_compared;

  /// The number of ops, fallbacks and decompositions that differ.
  std::size_t differences() const;
};

struct SourceComparisonOptions {
  std::vector<std::string> ops;   ///< Patterns of names_op(); empty: all ops.
  std::vector<std::string> keys;  ///< Patterns of dispatch keys; empty: everything.
};

/// Compares what two indexes have about ops: schemas, kernels, derivatives, registrations, and
/// decompositions in Python. Lines and files are not compared. With `keys`, only kernels,
/// derivatives, registrations and fallbacks of these keys are. Throws Error(usage) if an index is
/// corrupt.
SourceComparison compare_sources(const Index& first, const Index& second,
                                 const SourceComparisonOptions& options);

}  // namespace optrace
