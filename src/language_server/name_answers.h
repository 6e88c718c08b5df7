#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lookup/locate/locate.h"
#include "lookup/locate/source_indexes.h"
#include "src/inputs/local_sources.h"
#include "src/inputs/selected_index.h"

namespace optrace {

/// A place in a file on this machine.
struct LocalPlace {
  std::filesystem::path file;
  std::uint32_t line = 0;  ///< From 1.
  bool operator==(const LocalPlace&) const = default;
};

/// Answers questions about names of PyTorch's Python interface, for editors.
class NameAnswers {
 public:
  explicit NameAnswers(SelectedIndex choice);

  /// Returns what is known of the first of `names` (full names such as `torch.matmul`) that PyTorch
  /// has; nothing if it has none of them. Throws Error(usage) for a corrupt index.
  std::optional<LocateResult> find(const std::vector<std::string>& names);

  /// Returns the definitions that are on this machine: of a Python class or function its own, of a
  /// builtin or an op its kernels and its binding, or its entry in native_functions.yaml.
  std::vector<LocalPlace> definitions(const LocateResult& found) const;

  /// Returns Markdown: the signature, the binding, the kernels by dispatch key, the derivative,
  /// each with its place, which is a link where PyTorch's repository has it.
  std::string description(const LocateResult& found) const;

 private:
  void add_place(const Located& located, std::vector<LocalPlace>& places) const;
  std::string op_text(const Located& op) const;
  std::string derivative_text(const std::string& op) const;

  SelectedIndex choice_;
  SourceIndexes indexes_;
  LocalSources sources_;
  Locator locator_;
};

}  // namespace optrace
