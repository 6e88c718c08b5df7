#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "indexer/store/op_facts.h"
#include "lookup/calls/kernel_functions.h"
#include "lookup/calls/static_path.h"
#include "lookup/locate/op_spelling.h"
#include "lookup/locate/source_indexes.h"
#include "pytorch/names/op_schema.h"

namespace optrace {

struct ExplainedStub {
  std::string symbol;
  std::string name;         ///< `at::native::add_stub`
  SourceLocation location;  ///< Location of the declaration.
  std::vector<Registration> kernels;
};

struct ExplainedDerivative {
  OpFacts::Derivative facts;
  std::string apply;        ///< Symbol of the node's `apply`; empty if there is no node.
  SourceLocation location;  ///< Location of `apply`, in generated code.
  std::vector<CalledOp> ops;
};

struct DevicePaths {
  std::string device;  ///< `cuda`
  std::string key;     ///< `CUDA`
  std::vector<StaticPath> paths;
};

/// The facts about an op in PyTorch's source. Text is valid as long as the index.
struct Explanation {
  std::string asked;
  SpelledOp spelled;
  std::string name;              ///< `aten::conv2d`
  std::optional<OpEntry> entry;  ///< Empty for ops that are in no native_functions.yaml.
  OpFacts facts;
  std::optional<OpSchema> schema;  ///< Empty if it is unknown.
  std::vector<std::string> words;  ///< Sentences about the op.
  std::optional<Registration> declaration;
  std::vector<ExplainedKey> keys;  ///< All runtime keys, in the dispatcher's order.
  std::vector<ExplainedStub> stubs;
  std::vector<ExplainedDerivative> derivatives;
  std::vector<DevicePaths> devices;
};

/// Returns the dispatch key of a device: `CUDA` for `cuda`. Empty for an unknown device.
std::string_view dispatch_key_of_device(std::string_view device);

/// Returns the devices to explain if the user names none.
std::vector<std::string> default_devices();

/// `spelled` is a result of find_spelled_op and names an op of `index`. Throws Error(usage) if the
/// index is corrupt.
Explanation explain(const SourceIndexes& index, const SpelledOp& spelled, std::string_view asked,
                    const std::vector<std::string>& devices);

}  // namespace optrace
