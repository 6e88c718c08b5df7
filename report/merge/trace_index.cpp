#include "report/merge/trace_index.h"

#include "indexer/store/index_catalogue.h"

namespace optrace {

std::optional<Index> find_index_of(const Trace& trace, std::vector<std::string>* warnings) {
  return find_index(trace.meta.torch.version, trace.meta.torch.git_version, warnings);
}

}  // namespace optrace
