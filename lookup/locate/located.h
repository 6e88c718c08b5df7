#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "indexer/store/index_contents.h"

namespace optrace {

/// The kind of object that a name refers to.
enum class LocatedKind : std::uint8_t {
  python_module,
  python_class,
  python_function,
  python_builtin,  ///< Written in C++; `inspect` finds no source for it.
  op,
  function,  ///< A C++ function.
  device_kernel,
  type,     ///< A C++ class.
  stub,     ///< A DispatchStub.
  foreign,  ///< A function of another library that PyTorch calls.
  enumeration,
};

/// The role of the class that declares an answer which is defined nowhere.
inline constexpr std::string_view kMemberOf = "member of";

/// Returns the name for people and programs: "python class", "op", ...
std::string_view name_of(LocatedKind kind);

/// A name with its location in the source and its parts.
struct Located {
  LocatedKind kind = LocatedKind::function;
  std::string role;  ///< Of a part: its role, such as `kernel`; see the schema.
  std::string key;   ///< A kernel's dispatch keys, `CPU, CUDA`, or its key in a stub, `CPU.AVX2`.
  std::string name;  ///< Qualified: `at::native::convolution`, `torch.nn.modules.linear.Linear`
  std::string parameters;  ///< Only for a C++ function: `(at::Tensor const&, long)`.
  std::string symbol;      ///< Canonical symbol; empty for anything but C++.
  std::string file;        ///< Relative to PyTorch's source tree; empty if unknown.
  std::uint32_t line = 0;  ///< From 1; 0 if it is unknown.
  std::optional<LineInterval> approximate{};  ///< Of the line, as in SourceLocation.
  std::string url;      ///< Upstream URL at the exact commit; empty for generated code.
  std::string library;  ///< File that contains the name, if no PyTorch source defines it.
  std::string path;     ///< The file on this machine, if Python was asked for it.
  /// Only for a callee: the line of the call, in the file of the name that it is a part of; 0 if
  /// unknown.
  std::uint32_t call_line = 0;
  std::optional<LineInterval> call_approximate{};  ///< Of call_line.
  bool call_in_local_file = false;  ///< call_line was read in the installed torch's own file.
  std::string note;          ///< Why its own calls are not listed, or a condition; empty if none.
  std::size_t left_out = 0;  ///< Number of its callers or callees that are not among the parts.
  std::vector<Located> parts;
};

/// The text of a definition, with the comments and decorators above it.
struct DefinitionText {
  std::uint32_t first = 0;  ///< The number of the first line, from 1.
  std::uint32_t line = 0;   ///< The line of the name.
  std::vector<std::string> lines;
  /// The name was not at its line, and this is the nearest definition of that name in the file.
  bool moved = false;
};

/// The definition of an answer, in a file on this machine.
struct LocatedDefinition {
  std::string file;  ///< As in the answer.
  std::string path;
  std::string name;
  DefinitionText text;
};

/// The answers for a name, the likeliest first.
struct LocateResult {
  std::string query;
  std::vector<Located> answers;
  std::size_t total = 0;                          ///< Number of answers without the limit.
  std::vector<std::string> suggestions;           ///< Similar names, if there is no answer.
  std::optional<LocatedDefinition> definition{};  ///< Of one of the answers, if requested.
};

struct LocateOptions {
  std::size_t limit = 10;  ///< Maximum number of answers.
  /// Also include ops that torchgen adds to others, and all callers of functions with many callers.
  bool all = false;
};

/// The answers to one look-up. Counts all, but makes and keeps only those within the limit.
class AnswerList {
 public:
  explicit AnswerList(const LocateOptions& options) : options_(options) {}

  /// Adds the answer that `make` returns. Calls it only if the answer is kept.
  template <typename Make>
  void add(Make make) {
    ++total_;
    if (options_.all || kept_.size() < options_.limit) kept_.push_back(make());
  }

  const LocateOptions& options() const { return options_; }
  std::size_t total() const { return total_; }
  bool empty() const { return total_ == 0; }
  std::vector<Located> take() { return std::move(kept_); }

 private:
  LocateOptions options_;
  std::vector<Located> kept_;
  std::size_t total_ = 0;
};

}  // namespace optrace
