#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tracer/trace/trace.h"

namespace optrace {

/// The metadata of several traces.
class MergedMeta {
 public:
  /// `is_first` is true if the trace has the first process so far. `is_merged` is true if the trace
  /// is a merged one.
  void add(const Trace& trace, bool is_first, bool is_merged);

  /// Returns the metadata without that of the processes.
  TraceMeta take();

 private:
  TraceMeta first_;
  bool python_counted_ = true;
  std::map<std::string, std::uint64_t> python_calls_;
  std::map<std::string, std::string> op_names_, dispatch_tables_;
  std::map<std::string, std::vector<std::string>> boxed_kernels_;
  std::set<std::string> warnings_;
  std::map<std::string, std::uint64_t> shortfalls_;
  std::uint64_t placed_ = 0, failed_ = 0;
};

}  // namespace optrace
