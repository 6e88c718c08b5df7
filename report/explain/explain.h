#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "indexer/store/op_facts.h"
#include "report/explain/dispatch_table.h"
#include "report/explain/op_schema.h"
#include "report/explain/static_path.h"
#include "report/locate/op_spelling.h"
#include "report/locate/source_indexes.h"

namespace optrace {

/// A function behind a kernel, and what it is to it.
struct KernelFunction {
  /// `generated`, `kernel`, `meta`, `implementation`, `inner loop` (of a ufunc), `functional` (that
  /// an out variant of torchgen's wraps), `named in the yaml`.
  std::string role;
  std::string symbol;       ///< Empty where only the yaml names it.
  std::string name;         ///< Qualified.
  SourceLocation location;  ///< Without file where the index has no definition.
};

/// One entry of the dispatch table with what stands behind it.
struct ExplainedKey {
  DispatchEntry entry;
  std::string kernel;  ///< The registered function's qualified name; empty if none is named.
  /// The registered function, and what of PyTorch's hand-written code it hands over to.
  std::vector<KernelFunction> functions;
};

struct ExplainedStub {
  std::string symbol;
  std::string name;         ///< `at::native::add_stub`
  SourceLocation location;  ///< Where it is declared.
  std::vector<Registration> kernels;
};

struct ExplainedDerivative {
  OpFacts::Derivative facts;
  std::string apply;        ///< The node's `apply`, its symbol; empty where there is no node.
  SourceLocation location;  ///< Of `apply`, in generated code.
  std::vector<CalledOp> ops;
};

struct DevicePaths {
  std::string device;  ///< `cuda`
  std::string key;     ///< `CUDA`
  std::vector<StaticPath> paths;
};

/// What the source says of an op. Text lives as long as the index.
struct Explanation {
  std::string asked;
  SpelledOp spelled;
  std::string name;              ///< `aten::conv2d`
  std::optional<OpEntry> entry;  ///< Nothing for ops that are in no native_functions.yaml.
  OpFacts facts;
  std::optional<OpSchema> schema;  ///< Nothing where it is unknown.
  std::vector<std::string> words;  ///< About the op, in sentences.
  std::optional<Registration> declaration;
  std::vector<ExplainedKey> keys;  ///< All runtime keys, in the dispatcher's order.
  std::vector<ExplainedStub> stubs;
  std::vector<ExplainedDerivative> derivatives;
  std::vector<DevicePaths> devices;
};

/// Where lines come from, for display.
struct ExplanationSource {
  std::string version;      ///< Of the source that the index was made from.
  std::string git_version;  ///< Empty if unknown.
  std::string torch;        ///< The version of the torch at hand; empty if there is none.
  bool exact = false;
};

/// The dispatch key of a device as PyTorch spells it: `CUDA` for `cuda`; empty for no device.
std::string_view dispatch_key_of_device(std::string_view device);

/// The devices that an answer is about if the user names none.
std::vector<std::string> default_devices();

/// `spelled` is of find_spelled_op and names an op of `index`. Throws Error(usage) when the index
/// is corrupt.
Explanation explain(const SourceIndexes& index, const SpelledOp& spelled, std::string_view asked,
                    const std::vector<std::string>& devices);

}  // namespace optrace
