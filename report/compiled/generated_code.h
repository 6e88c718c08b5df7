#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "report/model/compilation.h"
#include "tracer/trace/trace_meta.h"

namespace optrace {

/// The code that Inductor generated for the graphs of torch.compile, from a trace's metadata
/// (`generated_code`, docs/trace-format.md), which is untrusted: invalid entries are skipped.
class GeneratedCode {
 public:
  explicit GeneratedCode(const TraceMeta& meta);

  bool empty() const { return libraries_.empty() && files_.empty(); }

  struct Kernel {
    std::string name;  ///< By which generated code calls it. It says what was fused.
    std::string file;  ///< The generated file that defines it; empty if unknown.
    std::uint32_t line = 0;
    /// The nodes of the graph that were fused into it, in the graph's order; empty if unknown.
    std::vector<Origin> origins;
  };

  /// Returns the kernel that is a function of a library; null if it is none that Inductor
  /// generated. The function is `kernel` in a library that generated Python code calls, and has the
  /// kernel's name in one that has generated C++ code for a whole graph.
  const Kernel* kernel_of(const std::string& library, const std::string& function) const;

  /// Returns true if Inductor generated the file with this path.
  bool has(const std::string& file) const { return files_.contains(file); }

  /// Returns the line of the program for which a line of a generated file makes its call: the last
  /// one, where several were fused. `file` is the path of the generated file.
  std::optional<Origin> origin_of(const std::string& file, std::uint32_t line) const;

  using Kernels = std::map<std::string, Kernel, std::less<>>;

  /// Returns the kernels of the generated file with this path, by their names; none for other
  /// files.
  const Kernels& kernels_in(const std::string& file) const;

  /// Returns the kernels of the generated file with this path that were not fused, in the order of
  /// its schedule.
  const std::vector<NotFused>& not_fused_in(const std::string& file) const;

 private:
  struct File {
    std::map<std::uint64_t, std::optional<Origin>> calls;  // By the first line that has it.
    Kernels kernels;
    std::vector<NotFused> not_fused;
  };

  const File* find(const std::string& file) const;

  // The kernels of a library, by its path, or by its file's name without the extension, which is
  // that of the generated file. AOTInductor's packages are unpacked to a new folder for each
  // process.
  std::unordered_map<std::string, std::vector<Kernel>> libraries_;
  std::unordered_map<std::string, File> files_;  // By the generated file's path.
};

}  // namespace optrace
