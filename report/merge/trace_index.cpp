#include "report/merge/trace_index.h"

#include "indexer/store/index_catalogue.h"
#include "platform/text/json_fields.h"

namespace optrace {

std::optional<Index> find_index_of(const Trace& trace, std::vector<std::string>* warnings) {
  const nlohmann::json torch =
      trace.meta.is_object() ? trace.meta.value("torch", nlohmann::json()) : nlohmann::json();
  return find_index(text_at(torch, "version"), text_at(torch, "git_version"), warnings);
}

}  // namespace optrace
