#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "indexer/store/index_store.h"

namespace optrace {

/// Identifies a function in the index. The file and library distinguish functions of one symbol.
struct IndexedFunction {
  std::string symbol;         ///< Canonical symbol.
  std::string source_file{};  ///< Result of source_file_of().
  std::string library{};      ///< File name of the library.
};

/// Finds the lines at which one function calls another, each once and in order. Functions between
/// the two may have been inlined and have no frame.
class CallLines {
 public:
  /// `index` must outlive the object.
  explicit CallLines(const Index& index) : index_(index) {}

  /// Returns the lines of `caller`, ascending, that lead to `callee` through the fewest functions
  /// in between. There are several if the caller has several such calls, and none if the index has
  /// no such path through kMaxDepth functions.
  std::vector<SourceLocation> find(const IndexedFunction& caller, const IndexedFunction& callee);

  /// Returns the lines of a dispatcher step that call the registered kernel.
  std::vector<SourceLocation> find_dispatch(const IndexedFunction& step);

  /// Returns the lines of `caller` that call a function with the callee's unqualified name. This
  /// finds calls of a virtual function that the callee overrides, and of functions of other
  /// projects, whose parameters are not in PyTorch's source. If there are none, `foreign` is true,
  /// and `caller` calls a single other member of the callee's class, returns the lines that call
  /// this member: it was inlined and called the callee.
  std::vector<SourceLocation> find_by_name(const IndexedFunction& caller,
                                           const IndexedFunction& callee, bool foreign);

  /// Returns the line at which a function calls a stub, which calls one of the copies of a kernel
  /// for several CPU capabilities. Empty if it calls several stubs: the source does not show which
  /// one was used.
  std::vector<SourceLocation> find_stub(const IndexedFunction& caller);

  static constexpr unsigned kMaxDepth = 5;
  static constexpr std::size_t kMaxVisited = 3000;  ///< Functions per search.

 private:
  /// Returns the calls of a function that is compiled together with `beside`.
  const std::vector<CallSite>& calls_of(std::string_view symbol, const IndexedFunction& beside);

  /// Returns the lines of `caller`, ascending, that call a function whose key satisfies
  /// `is_callee`.
  template <typename IsCallee>
  std::vector<SourceLocation> lines_of_calls(const IndexedFunction& caller, IsCallee is_callee);

  const Index& index_;
  std::map<std::pair<std::string, std::string>, std::vector<CallSite>> calls_;
  std::map<std::pair<std::string, std::string>, std::vector<SourceLocation>> found_;
};

}  // namespace optrace
