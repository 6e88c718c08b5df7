#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "report/locate/wheel_symbols.h"

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
  std::uint32_t line = 0;  ///< From 1.
  std::string url;         ///< Upstream URL at the exact commit; empty for generated code.
  std::string library;     ///< File that contains the name, if no PyTorch source defines it.
  std::string path;        ///< The file on this machine, if Python was asked for it.
  std::vector<Located> parts;
};

/// The answers for a name, the likeliest first.
struct LocateResult {
  std::string query;
  std::vector<Located> answers;
  std::size_t total = 0;                 ///< Number of answers without the limit.
  std::vector<std::string> suggestions;  ///< Similar names, if there is no answer.
};

struct LocateOptions {
  std::size_t limit = 10;  ///< Maximum number of answers.
  /// Also include ops that torchgen adds to others, and all callers of functions with many callers.
  bool all = false;
};

/// Looks up names in an index. Caches what it reads of all names, so use one Locator for many
/// look-ups.
class Locator {
 public:
  /// `index` is PyTorch's, `projects` are those of extensions; they must outlive this. `wheel` may
  /// be null; it is searched for names that are in no index.
  explicit Locator(const Index& index, std::vector<const Index*> projects = {},
                   const WheelSymbols* wheel = nullptr);
  ~Locator();
  Locator(const Locator&) = delete;
  Locator& operator=(const Locator&) = delete;

  /// Throws Error(usage) if the name is invalid (parse_name) or the index is corrupt.
  LocateResult locate(std::string_view name, const LocateOptions& options = {});

  /// Returns the PyTorch objects with that Python name, with aliases resolved: one object, or a
  /// module and the function of the same name that hides it. `torch.` may be left out.
  std::vector<PythonName> python_names(std::string_view name) const;

  /// Returns true if PyTorch has an object with that Python name, as in `from torch import nn`.
  bool knows_python_name(std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace optrace
