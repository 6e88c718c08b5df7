#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/model/compilation.h"

namespace optrace {

/// Returns the size of a compilation's graph, its times, and the answer of Inductor's cache: "5
/// ops, 11.6 s (Inductor 8.15 s, compilers 7.2 s), cache miss".
std::string compilation_facts(const Compilation& compilation);

/// Returns the times of its backward graph, in the same words; empty if they are unknown.
std::string backward_facts(const Compilation& compilation);

/// Returns the forward graph and, if it was compiled, the backward one.
std::vector<const CompiledGraph*> graphs_of(const Compilation& compilation);

/// Returns a line for each pair of a graph's kernels that was not fused, with Inductor's reason.
/// Extern kernels are left out, because Inductor fuses nothing with any of them.
std::vector<std::string> pairs_not_fused(const CompiledGraph& graph);

/// Returns the end of a path that no other file among the places has. A place has a `file`.
template <class Places>
std::string_view short_file(std::string_view file, const Places& places) {
  for (std::size_t slash = file.rfind('/'); slash != std::string_view::npos && slash != 0;
       slash = file.rfind('/', slash - 1)) {
    const std::string_view end = file.substr(slash);
    bool taken = false;
    for (const auto& other : places)
      taken = taken ||
              (other.file != file && (other.file.ends_with(end) || other.file == end.substr(1)));
    if (!taken) return end.substr(1);
  }
  return file;
}

}  // namespace optrace
