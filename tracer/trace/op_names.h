#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tracer/trace/trace.h"

namespace optrace {

/// The ops that op records are of. Records are hostile: one that is of no call has no name.
class OpNames {
 public:
  struct Op {
    /// `aten::add.Tensor`, or what else RecordFunction names (a custom autograd function).
    std::string name;
    /// The record that was the first of the same op to be asked for; kNone for what is no
    /// dispatcher's op: it has no schema.
    std::uint32_t first = kNone;
  };

  /// By their numbers. They must outlive this, and may get more: one that is empty is yet to come.
  explicit OpNames(const std::vector<std::string>& records) : records_(records) {}

  /// Valid as long as this is.
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
