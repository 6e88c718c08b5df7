#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <nlohmann/json.hpp>

namespace optrace {

/// A line of a program.
struct ProgramLine {
  std::string file;
  std::uint32_t line = 0;  ///< From 1.
};

/// The code that Inductor generated for the graphs of torch.compile, from a trace's metadata
/// (`generated_code`, docs/trace-format.md), which is untrusted: invalid entries are skipped.
class GeneratedCode {
 public:
  explicit GeneratedCode(const nlohmann::json& meta);

  bool empty() const { return kernels_.empty() && origins_.empty(); }

  /// Returns the name by which generated Python code calls the C++ kernel of a library, which says
  /// what was fused. Empty if the library is not Inductor's.
  std::string_view kernel_of(const std::string& library) const;

  /// Returns true if Inductor generated the file with this path.
  bool has(const std::string& file) const { return origins_.contains(file); }

  /// Returns the line of the program for which a line of a generated file makes its call: the last
  /// one, where several were fused. `file` is the path of the generated file.
  std::optional<ProgramLine> origin_of(const std::string& file, std::uint32_t line) const;

 private:
  // By the first of the generated lines that have it.
  using Origins = std::map<std::uint64_t, std::optional<ProgramLine>>;

  std::unordered_map<std::string, std::string> kernels_;  // Names by the library's path.
  std::unordered_map<std::string, Origins> origins_;      // By the generated file's path.
};

}  // namespace optrace
