#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "indexer/store/index_store.h"
#include "lookup/calls/static_path.h"
#include "lookup/locate/entry_locator.h"
#include "lookup/locate/located.h"
#include "lookup/locate/op_lookup.h"
#include "lookup/locate/python_lookup.h"
#include "lookup/source_text/python_source.h"

namespace optrace {

/// Finds the calls through which Python functions of PyTorch leave Python, in their source: calls
/// of functions that are bound in C++ and call an op, directly or by way of other Python functions.
/// Names are resolved by the imports of the file, methods of `self` by the class, and objects that
/// are called, `self.linear1(x)`, by the class that `__init__` makes them of. Objects whose class
/// only the running program knows are not followed.
class PythonCalls {
 public:
  /// Returns the text of a file, given by its path in the source tree (`torch/nn/functional.py`);
  /// nothing if it is not on this machine.
  using ReadFile = std::function<std::optional<std::string>(const std::string&)>;

  /// Functions that are read for one answer.
  static constexpr std::size_t kMaxFunctions = 200;

  /// All references must outlive this.
  PythonCalls(const SourceIndexes& index, const EntryLocator& entries, OpLookup& ops,
              PythonLookup& python, ReadFile read)
      : paths_(index), entries_(entries), ops_(ops), python_(python), read_(std::move(read)) {}

  /// Returns true for a class or function that is written in Python.
  static bool has_calls(const Located& answer);

  /// Adds the calls to the parts of an answer. Of a class, they are those of its `forward`,
  /// `backward`, `step` or `__call__`. Of an op, the first overload is added, with its kernels for
  /// the CPU and for CUDA devices; of a composite op, also the likeliest kernel that it leads to.
  /// `all`: also other overloads and kernels, calls of C++ functions that call no op, and of ops
  /// that only create, copy or inspect tensors. Returns false if the source is not on this machine.
  bool add(Located& answer, bool all);

 private:
  struct File {
    PythonSource source;
    std::string module;  ///< `torch.nn.functional`
  };

  const File* file_of(std::string_view file);
  std::size_t line_of_definition(const File& file, const PythonName& name) const;
  void add_methods(const PythonName& owner, Located& answer);
  void add_calls(const PythonName& function, const std::string& owner, Located& answer);
  std::optional<PythonName> resolve(const File& file, const std::string& owner,
                                    const PythonNameInText& name, bool& if_tensor) const;
  std::optional<Located> callee(const PythonName& name, const std::string& owner);
  std::optional<Located> builtin(const PythonName& name);
  std::optional<PythonName> call_of_attribute(const std::string& owner,
                                              const std::string& attribute);
  const std::map<std::string, std::string>& attributes_of(const std::string& owner);
  void keep_kernels_of_devices(Located& op) const;
  void add_kernels(Located& op);
  std::optional<Located> last_kernel(const StaticPath& path, std::string_view op) const;

  StaticPaths paths_;
  const EntryLocator& entries_;
  OpLookup& ops_;
  PythonLookup& python_;
  ReadFile read_;
  bool all_ = false;
  bool missing_ = false;  // A file of the answer is not on this machine.
  std::map<std::string, std::optional<File>, std::less<>> files_;
  // The classes of the attributes that a class's `__init__` assigns, by class.
  std::map<std::string, std::map<std::string, std::string>, std::less<>> attributes_;
  std::set<std::string> listed_;  // Functions and builtins of the answer.
};

}  // namespace optrace
