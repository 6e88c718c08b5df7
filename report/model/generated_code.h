#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

namespace optrace {

/// What a call of generated code comes from.
struct Origin {
  std::string op;    ///< Empty if unknown, as for calls that are not of kernels.
  std::string node;  ///< Of the FX graph; empty if unknown.
  std::string file;  ///< Of the program; empty if unknown.
  std::uint32_t line = 0;
  std::string module;  ///< Path of the innermost nn.Module; empty if there is none.
};

/// Returns a report's list `origins` (report.schema.json).
nlohmann::json to_json(const std::vector<Origin>& origins);

/// The code that Inductor generated for the graphs of torch.compile, from a trace's metadata
/// (`generated_code`, docs/trace-format.md), which is untrusted: invalid entries are skipped.
class GeneratedCode {
 public:
  explicit GeneratedCode(const nlohmann::json& meta);

  bool empty() const { return kernels_.empty() && files_.empty(); }

  struct Kernel {
    std::string name;  ///< By which generated Python code calls it. It says what was fused.
    std::string file;  ///< The generated file that defines it; empty if unknown.
    std::uint32_t line = 0;
  };

  /// Returns the kernel of a library; null if the library is not Inductor's.
  const Kernel* kernel_of(const std::string& library) const;

  /// Returns the kernel that a generated Python file calls by a name, and where it is defined: in a
  /// C++ file, or in the Python file. Null if that is unknown.
  const Kernel* kernel_in(const std::string& file, const std::string& name) const;

  /// Returns true if Inductor generated the file with this path.
  bool has(const std::string& file) const { return files_.contains(file); }

  /// Returns the line of the program for which a line of a generated file makes its call: the last
  /// one, where several were fused. `file` is the path of the generated file.
  std::optional<Origin> origin_of(const std::string& file, std::uint32_t line) const;

  /// The kernels that a generated file defines, and the nodes of the graph that were fused into
  /// each, in the graph's order. These are empty for a kernel about which nothing is known.
  using Kernels = std::map<std::string, std::vector<Origin>, std::less<>>;

  /// Returns the kernels of the generated file with this path; none for other files.
  const Kernels& kernels_in(const std::string& file) const;

 private:
  struct File {
    std::map<std::uint64_t, std::optional<Origin>> calls;  // By the first line that has it.
    Kernels kernels;
    std::map<std::string, Kernel, std::less<>> definitions;
  };

  std::unordered_map<std::string, Kernel> kernels_;  // By the library's path.
  std::unordered_map<std::string, File> files_;      // By the generated file's path.
};

}  // namespace optrace
