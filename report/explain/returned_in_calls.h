#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "report/explain/backend_name.h"
#include "report/model/report.h"

namespace optrace {

/// What the functions below the calls of an op returned, in a report.
class ReturnedInCalls {
 public:
  /// `op`: `aten::conv2d`.
  ReturnedInCalls(const Report& report, std::string_view op);

  /// Returns the number of the op's calls in the report.
  std::size_t calls() const { return calls_; }

  /// Returns `detail.returned` of all calls of a function (docs/report-format.md), null if it is
  /// not known. `symbol` is canonical, or the key of a template's instances.
  const nlohmann::json& of(std::string_view symbol) const;

  /// Returns what PyTorch says about a backend of attention: `refused by check_tensor_dtype ...`.
  std::vector<std::string> attention_lines_of(const BackendName& backend) const;

 private:
  void add(const Frame& frame);

  std::size_t calls_ = 0;
  std::map<std::string, nlohmann::json, std::less<>> returned_;  // By function_key().
  std::vector<std::string> attention_;
};

}  // namespace optrace
