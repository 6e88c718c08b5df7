#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/model/detail.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A line of the program. Unknown if `line` is 0.
struct ProgramLine {
  std::string file;
  std::uint64_t line = 0;
};

/// A call of an op, or an autograd node that ran.
struct LoggedCall {
  std::uint64_t number = 0;
  std::uint64_t outer = 0;   ///< Number of the call that it was made in; 0: none.
  std::uint32_t record = 0;  ///< Its op record; 0: none.
  /// Autograd's number of the node that the call makes, or that runs, and of the thread on which
  /// the node was made.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> node;
  bool is_node = false;
  std::string name;  ///< `aten::add.Tensor`, `AddBackward0`.
  ProgramLine line;  ///< Only for a call outside of all others.
  std::vector<StoredTensor> arguments, results;
};

/// A storage, from when it was first seen to its end.
struct LoggedStorage {
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;  ///< The last size.
  std::uint64_t largest = 0;
  std::string device;
  std::uint64_t born = 0;            ///< The call in which it was first seen; 0: outside of all.
  bool existed = false;              ///< It existed before that call.
  std::vector<std::uint64_t> saved;  ///< The calls in which autograd saved it for their backward.
  bool ended = false;
  /// The call in which it ended, or before which, if it ended outside of calls. Both 0: at the end
  /// of the recording.
  std::uint64_t ended_during = 0, ended_before = 0;
};

/// A variable that has begun to refer to a tensor, or to another one. Without a tensor, it no
/// longer refers to one.
struct LoggedVariable {
  std::string name;      ///< `x`, or a path to a tensor in it: `x[0]`, `x['key']`, `x.attribute`.
  std::string function;  ///< Empty for a variable of a module.
  std::string file;
  std::uint64_t after = 0;     ///< The last call that ended before this was seen.
  std::uint64_t identity = 0;  ///< The number of the tensor. No two tensors have the same.
  bool bound = false;          ///< It refers to a tensor.
  StoredTensor tensor;
};

/// The largest sum of the sizes of the storages that a device had at one time.
struct PeakMemory {
  std::uint64_t bytes = 0;
  std::uint64_t call = 0;  ///< The call that made the last of them; 0: outside of calls.
  std::vector<std::uint64_t> storages;  ///< The largest first.
};

/// A trace's log of tensors (docs/trace-format.md). Invalid entries are skipped.
struct TensorLog {
  std::vector<LoggedCall> calls;  ///< In the order of their ends.
  std::map<std::uint64_t, LoggedStorage> storages;
  std::vector<LoggedVariable> variables;    ///< In the order in which they were seen.
  std::map<std::string, PeakMemory> peaks;  ///< By device.
  bool full = false;                        ///< It ended early for lack of room.

  const LoggedCall* call(std::uint64_t number) const;
  /// Returns the name of the node that the call made, if it ran; else an empty string.
  std::string node_made_by(const LoggedCall& call) const;
  /// Returns the outermost call that contains the call, or null.
  const LoggedCall* outermost(std::uint64_t number) const;
  /// Returns the calls made directly in a call.
  std::vector<const LoggedCall*> inside(std::uint64_t number) const;

  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string>
      nodes;                                                  ///< Names of those that ran.
  std::unordered_map<std::uint64_t, std::size_t> places;      ///< Indexes of the calls, by number.
  std::unordered_multimap<std::uint64_t, std::size_t> inner;  ///< By the number of the outer call.
};

/// Returns true if the trace has a log, without reading it.
bool has_tensor_log(const Trace& trace);

/// Returns nullopt if the trace has no log.
std::optional<TensorLog> read_tensor_log(const Trace& trace);

/// A copy of a tensor's data into another storage.
struct TensorCopy {
  std::uint64_t from = 0, to = 0;  ///< Storages.
  std::uint64_t call = 0;          ///< The innermost call that copies.
  std::string reason;  ///< "device: cpu to cuda:0", "dtype: ...", "layout: ...", or "requested".
};

/// Returns the copies that a call makes itself; those in its inner calls are not among them.
std::vector<TensorCopy> copies_of(const TensorLog& log, const LoggedCall& call);

/// Returns `3×4 float32 cpu, storage #1 +0`.
std::string tensor_text(const StoredTensor& tensor);

}  // namespace optrace
