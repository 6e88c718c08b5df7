#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/index_store.h"
#include "report/report.h"
#include "tracer/trace.h"

namespace optrace {

/// What names there are, so that a rule about one that nobody ever had can be told from one that
/// was not met: functions and ops of the trace's tables and of the index, entry points of CUDA's
/// and the CPU's libraries.
class KnownNames {
 public:
  /// `index` may be null. They must outlive the object.
  KnownNames(std::span<const Trace> traces, const Index* index) : traces_(traces), index_(index) {}

  /// Whether anything that could be called matches, in which `*` stands for any characters. Which
  /// instances there are of a template nobody knows, so `f<double>*` is known if `f` is.
  bool any_matches(std::string_view pattern) const;

  /// At most `limit` names that were meant by a pattern that nothing matches, likeliest first.
  std::vector<std::string> near(std::string_view pattern, std::size_t limit) const;

  /// Whether there is an index, which knows what was not called, too.
  bool complete() const { return index_ != nullptr; }

 private:
  std::span<const Trace> traces_;
  const Index* index_;
};

/// Whether a pattern names a function, by its qualified name with or without template arguments, or
/// as the text of reports has it (short_name()), or an op (`aten::add`, `aten::add.Tensor`, `add`).
bool names_function(std::string_view pattern, std::string_view qualified_name);
bool names_op(std::string_view pattern, std::string_view op);

}  // namespace optrace
