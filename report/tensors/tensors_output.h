#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "present/terminal_text.h"
#include "report/tensors/tensor_history.h"
#include "report/tensors/tensor_log.h"

namespace optrace {

/// The answer of `optrace tensors`.
struct TensorsAnswer {
  TensorLog log;
  std::string name;                      ///< The value of --name; empty: all variables.
  std::vector<TensorHistory> histories;  ///< Of the log.
  std::string torch;                     ///< The version of torch.
  std::optional<std::int64_t> process;   ///< The id, if the answer has several processes.
  std::optional<std::uint64_t> rank;     ///< Of that process, as torchrun sets it.
};

/// For people: the histories of a variable, or the variables, copies, storages and peaks of the
/// program.
std::string to_text(const TensorsAnswer& answer, const TerminalStyle& style);

/// For programs: schema optrace.tensors/1.
std::string to_json(const TensorsAnswer& answer);

/// The same on one line.
std::string to_json_line(const TensorsAnswer& answer);

}  // namespace optrace
