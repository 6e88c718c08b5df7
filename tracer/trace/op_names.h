#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tracer/trace/trace.h"

namespace optrace {

/// Maps op records to ops. Records are untrusted; one that does not describe a call has no name.
class OpNames {
 public:
  struct Op {
    /// `aten::add.Tensor`, or another name given to RecordFunction (a custom autograd function).
    std::string name;
    /// The record of the same op that at() was first called with; kNone without a schema, which
    /// means that it is not a dispatcher op.
    std::uint32_t first = kNone;
  };

  /// `records` is indexed by record number. It must outlive this object and may grow. An empty
  /// record counts as not yet received.
  explicit OpNames(const std::vector<std::string>& records) : records_(records) {}

  /// The result is valid as long as this object.
  const Op& at(std::uint32_t record);

 private:
  struct Known : Op {
    bool read = false;
  };

  const std::vector<std::string>& records_;
  std::deque<Known> known_;  // By record.
  std::unordered_map<std::string_view, std::uint32_t> first_;
};

}  // namespace optrace
