#include "lookup/calls/path_order.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Ranks functions that differ only in their precision (`cublasSgemm`, `dgemm_`): first PyTorch's
// default dtype, then functions that take the type as an argument.
int precision_rank(std::string_view name) {
  for (const std::string_view prefix :
       {"cublas", "cusolverDn", "cusparse", "cblas_", "LAPACKE_", "mkl_sparse_"})
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  if (name.empty()) return 1;
  switch (name.front()) {
    case 'S':
    case 's':
      return 0;
    case 'D':
    case 'd':
      return 2;
    case 'C':
    case 'c':
      return 3;
    case 'Z':
    case 'z':
      return 4;
    default:
      return 1;
  }
}

// Among adjacent paths that differ only in their last function, moves the one for the default dtype
// to the front.
void prefer_default_precision(std::vector<StaticPath>& paths) {
  const auto same_way = [](const StaticPath& a, const StaticPath& b) {
    return a.library == b.library && a.bookkeeping == b.bookkeeping && a.stopped.empty() &&
           !a.library.empty() && a.steps.size() == b.steps.size() && a.steps.size() > 1 &&
           qualified_name(a.steps[a.steps.size() - 2].symbol) ==
               qualified_name(b.steps[b.steps.size() - 2].symbol);
  };
  for (auto first = paths.begin(); first != paths.end();) {
    auto last = std::find_if_not(first, paths.end(),
                                 [&](const StaticPath& one) { return same_way(*first, one); });
    if (last == first) ++last;
    std::stable_sort(first, last, [](const StaticPath& a, const StaticPath& b) {
      return precision_rank(qualified_name(a.steps.back().symbol)) <
             precision_rank(qualified_name(b.steps.back().symbol));
    });
    first = last;
  }
}

}  // namespace

void sort_paths(std::vector<StaticPath>& paths) {
  std::stable_sort(paths.begin(), paths.end(), [](const StaticPath& a, const StaticPath& b) {
    const auto rank = [](const StaticPath& path) {
      return std::tuple(!path.has_kernel, path.bookkeeping, path.detours, path.variants,
                        path.library == "CUDA", !path.stopped.empty(), path.library.empty(),
                        !path.named);
    };
    return rank(a) < rank(b);
  });
  prefer_default_precision(paths);
}

}  // namespace optrace
