#include "python/recorded_trace.h"

#include <optional>
#include <vector>

#include "indexer/index_catalogue.h"
#include "report/html.h"
#include "report/json.h"
#include "report/tree.h"

namespace optrace {
namespace {

std::string of_torch(const Trace& trace, const char* key) {
  if (!trace.meta.is_object()) return {};
  const nlohmann::json torch = trace.meta.value("torch", nlohmann::json());
  if (!torch.is_object()) return {};
  const nlohmann::json text = torch.value(key, nlohmann::json());
  return text.is_string() ? text.get<std::string>() : std::string();
}

}  // namespace

std::shared_ptr<const Report> RecordedTrace::report(bool all) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Report>& made = reports_[all ? 1 : 0];
  if (!made) {
    const std::optional<Index> index =
        find_index(of_torch(trace_, "version"), of_torch(trace_, "git_version"));
    made = std::make_shared<const Report>(merge(trace_, index ? &*index : nullptr, {.all = all}));
  }
  return made;
}

std::string RecordedTrace::tree(bool all) {
  TreeOptions options;
  options.all = all;
  return to_tree(*report(all), options);
}

std::string RecordedTrace::json(bool all) {
  return to_json(*report(all));
}

std::string RecordedTrace::html() {
  return to_html(*report(false));
}

}  // namespace optrace
