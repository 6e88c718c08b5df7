#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "indexer/store/index_store.h"
#include "lookup/explain/explain.h"

namespace optrace {

/// Dispatch keys with the same kernel for the same reason.
struct DispatchGroup {
  const ExplainedKey* first = nullptr;
  std::vector<std::string_view> keys;
};

/// Returns true for keys that a short answer shows: those of backends, autograd and autocast.
bool is_essential(const ExplainedKey& key);

/// Returns the rows of a dispatch table, in the order of their first keys; without `all`, only
/// those of essential keys. `keys` must outlive the result.
std::vector<DispatchGroup> dispatch_groups(const std::vector<ExplainedKey>& keys, bool all);

/// Returns why a key has its kernel: `registered for the key`, `by CompositeImplicitAutograd`.
std::string reason_of(const ExplainedKey& key);

/// A function that is registered for a stub, and the keys that it is registered for: one for each
/// CPU capability that it is compiled for.
using StubKernel = std::pair<const Registration*, std::vector<std::string_view>>;

/// Returns the kernels of a stub. `stub` must outlive the result.
std::vector<StubKernel> stub_kernels(const ExplainedStub& stub);

}  // namespace optrace
