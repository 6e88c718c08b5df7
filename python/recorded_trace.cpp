#include "python/recorded_trace.h"

#include <optional>
#include <vector>

#include "report/html.h"
#include "report/json.h"
#include "report/trace_index.h"
#include "report/tree.h"

namespace optrace {
std::shared_ptr<const Report> RecordedTrace::report(bool all) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Report>& made = reports_[all ? 1 : 0];
  if (!made) {
    const std::optional<Index> index = find_index_of(trace_);
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
