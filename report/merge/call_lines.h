#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "indexer/store/index_store.h"

namespace optrace {

/// A function as the index knows it.
struct IndexedFunction {
  std::string symbol;         ///< Canonical.
  std::string source_file{};  ///< Of source_file_of(), and the file name of the library that has
  std::string library{};      ///< it: they tell functions of one symbol apart.
};

/// Finds the lines at which one function calls another, although compilers inline: what lies
/// between the two in the source need not be a frame.
class CallLines {
 public:
  /// `index` must outlive the object.
  explicit CallLines(const Index& index) : index_(index) {}

  /// The lines of `caller`, ascending, that lead to `callee` through the fewest functions in
  /// between. Several if the caller has several such calls; empty if the source shows none within
  /// kDeepest functions.
  std::vector<std::uint32_t> find(const IndexedFunction& caller, const IndexedFunction& callee);

  /// The lines of a dispatcher step that hand over to whatever kernel is registered.
  std::vector<std::uint32_t> find_dispatch(const IndexedFunction& step);

  /// The lines of `caller` that call something of the callee's own name: the function that a
  /// virtual one overrides, or one of another project, whose parameters PyTorch's source does not
  /// tell. If `foreign`, else those that call the one other member of the callee's class that
  /// `caller` calls: a function that was inlined and called this one.
  std::vector<std::uint32_t> find_by_name(const IndexedFunction& caller,
                                          const IndexedFunction& callee, bool foreign);

  /// The line at which a function calls a stub, behind which lie the copies of a kernel for several
  /// instruction sets. Empty if it calls several: the source does not show which one led there.
  std::vector<std::uint32_t> find_stub(const IndexedFunction& caller);

  static constexpr unsigned kDeepest = 5;
  static constexpr std::size_t kMaxVisited = 3000;  ///< Functions, for one search.

 private:
  /// Of a function that is compiled together with `beside`.
  const std::vector<CallSite>& calls_of(std::string_view symbol, const IndexedFunction& beside);

  /// The lines of `caller`, ascending, that call a function whose key is `wanted`.
  template <typename Wanted>
  std::vector<std::uint32_t> lines_of_calls(const IndexedFunction& caller, Wanted wanted);

  const Index& index_;
  std::map<std::pair<std::string, std::string>, std::vector<CallSite>> calls_;
  std::map<std::pair<std::string, std::string>, std::vector<std::uint32_t>> found_;
};

}  // namespace optrace
