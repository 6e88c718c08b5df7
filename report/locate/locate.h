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

/// What a name turned out to be.
enum class LocatedKind : std::uint8_t {
  python_module,
  python_class,
  python_function,
  python_builtin,  ///< Written in C++; `inspect` knows no source of it.
  op,
  function,  ///< Of C++.
  device_kernel,
  type,     ///< A class of C++.
  stub,     ///< A DispatchStub.
  foreign,  ///< A function of another library that PyTorch calls.
  enumeration,
};

/// "python class", "op", ... as people and programs get to see it.
std::string_view name_of(LocatedKind kind);

/// A name with its place in the source, and what belongs to it.
struct Located {
  LocatedKind kind = LocatedKind::function;
  std::string role;  ///< What it is to that which it is a part of: `kernel`; see the schema.
  std::string key;   ///< A kernel's dispatch keys, `CPU, CUDA`; of a stub's, `CPU.AVX2`.
  std::string name;  ///< Qualified: `at::native::convolution`, `torch.nn.modules.linear.Linear`
  std::string parameters;  ///< Of a C++ function: `(at::Tensor const&, long)`.
  std::string symbol;      ///< Canonical; empty for what is not C++.
  std::string file;        ///< Relative to PyTorch's source tree; empty if unknown.
  std::uint32_t line = 0;  ///< From 1.
  std::string url;         ///< Upstream, at the exact commit; empty for generated code.
  std::string library;     ///< Of what no source of PyTorch's defines: the file that has it.
  std::string path;        ///< Its file on this machine, of what Python was asked about.
  std::vector<Located> parts;
};

/// What is known by a name, the likeliest first.
struct LocateResult {
  std::string query;
  std::vector<Located> answers;
  std::size_t total = 0;                 ///< Of answers, without the limit.
  std::vector<std::string> suggestions;  ///< Where there is no answer: names like it.
};

struct LocateOptions {
  std::size_t limit = 10;  ///< Of answers.
  /// Also ops that torchgen adds to others, and the callers of what is called from many places.
  bool all = false;
};

/// Looks names up in an index. What it learns of all names it keeps, so one Locator serves many.
class Locator {
 public:
  /// `index` is PyTorch's, `projects` are those of extensions; they must outlive this.
  /// `wheel`, which may be null, is asked for what no index knows.
  explicit Locator(const Index& index, std::vector<const Index*> projects = {},
                   const WheelSymbols* wheel = nullptr);
  ~Locator();
  Locator(const Locator&) = delete;
  Locator& operator=(const Locator&) = delete;

  /// Throws Error(usage) for what can be no name (parse_name) and for a broken index.
  LocateResult locate(std::string_view name, const LocateOptions& options = {});

  /// What of PyTorch's Python knows by that name, seen through aliases: one thing, or a module and
  /// the function of the same name that hides it. With or without `torch.` in front.
  std::vector<PythonName> python_names(std::string_view name) const;

  /// Whether Python knows something of PyTorch's by that name, as in `from torch import nn`.
  bool knows_python_name(std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace optrace
