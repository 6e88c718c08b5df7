#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "pytorch/names/key_names.h"
#include "pytorch/values/library_call.h"
#include "pytorch/values/values.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A call of an op, or of something else that has a name in PyTorch's records.
struct OpCallRecord {
  std::string op;      ///< `aten::add.Tensor`, or the name of a custom autograd function.
  std::string schema;  ///< Empty for what only has a name.
  std::vector<Argument> arguments;
  std::optional<std::uint64_t> key_set, included, excluded;  ///< Raw sets.
  std::optional<bool> grad_mode, inference_mode;
  std::uint64_t dispatch_modes = 0;
  /// The line of TorchScript that made the call; without a file if there is none.
  std::string script_file;
  std::uint32_t script_line = 0;
};

/// The results of a call of an op.
struct OpResults {
  std::vector<ResultOrList> results;
  /// The call computed what an earlier one had, and none of the results belongs to autograd's
  /// graph.
  bool repeated = false;
};

/// An autograd node that ran.
struct NodeRun {
  std::string name;  ///< `ConvolutionBackward0`
};

/// A launch of a device kernel.
struct KernelLaunch {
  std::string kernel;   ///< Mangled name.
  bool called = false;  ///< By a call of the host, rather than seen on the device.
  Launch launch;
};

/// The local variables of a Python function, by name.
struct VariableTexts {
  std::map<std::string, std::string> texts;
};

/// What a record of a trace describes; nothing if it is of another kind.
using OpRecord = std::variant<std::monostate, OpCallRecord, OpResults, NodeRun, LibraryCall,
                              KernelLaunch, VariableTexts>;

/// Reads the JSON text of a record (docs/trace-format.md), which is untrusted: what is invalid is
/// skipped, and so are parts beyond limits that no recorder comes near. `names` are those of
/// tensors' keys.
OpRecord read_op_record(std::string_view text, const KeyNames& names = {});

/// Reads the first record of a trace. The names are unknown if it is invalid.
KeyNames read_key_names(std::string_view text);

/// The records of a trace. Each is read when it is first asked for, and kept.
class OpRecords {
 public:
  /// The trace must outlive the object.
  explicit OpRecords(const Trace& trace)
      : texts_(trace.op_records),
        key_names_(texts_.empty() ? KeyNames() : read_key_names(texts_[0])) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(texts_.size()); }
  const KeyNames& key_names() const { return key_names_; }

  /// Returns null if the trace has no such record, or it is of another kind. The result is valid as
  /// long as this object.
  template <typename Kind>
  const Kind* find(std::uint32_t number) const {
    return std::get_if<Kind>(&at(number));
  }

 private:
  const OpRecord& at(std::uint32_t number) const {
    const auto [known, added] = read_.try_emplace(number);
    if (added && number != 0 && number < size())
      known->second = read_op_record(texts_[number], key_names_);
    return known->second;
  }

  const std::vector<std::string>& texts_;
  const KeyNames key_names_;
  mutable std::unordered_map<std::uint32_t, OpRecord> read_;
};

}  // namespace optrace
