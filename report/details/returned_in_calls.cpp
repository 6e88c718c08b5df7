#include "report/details/returned_in_calls.h"

#include <algorithm>

#include "pytorch/symbols/symbol_key.h"
#include "report/details/attention_backends.h"
#include "report/model/json_fields.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr const char* kValues = "values";

/// Adds the values of one frame to those of others.
void add_values(const Json& more, Json& all) {
  for (const Json& value : list_at(more, kValues)) {
    if (!value.is_object() || !value.contains("value")) continue;
    const auto same = std::ranges::find_if(
        all[kValues], [&](const Json& other) { return other["value"] == value["value"]; });
    if (same == all[kValues].end())
      all[kValues].push_back(value);
    else
      (*same)["calls"] = count_at(*same, "calls") + count_at(value, "calls");
  }
  // The only value stands for itself, as in a report.
  const bool is_only = all[kValues].size() == 1;
  for (const char* const key : {"value", "name"}) {
    all.erase(key);
    if (is_only && all[kValues][0].contains(key)) all[key] = all[kValues][0][key];
  }
}

}  // namespace

ReturnedInCalls::ReturnedInCalls(const Report& report, std::string_view op) {
  struct Above {
    bool is_call = false;  // Or below one.
    std::string caller;
  };
  walk_frames(report.roots, Above{}, [&](const Frame& frame, const Above& above) {
    const bool begins = frame.op == op && text_at(frame.detail, "step") == "call";
    if (begins) calls_ += frame.calls;
    if (!begins && !above.is_call) return Above{};
    add(frame, above.caller);
    Above below{true, frame.symbol ? function_key(*frame.symbol) : std::string()};
    functions_.insert(below.caller);
    return below;
  });
}

void ReturnedInCalls::add(const Frame& frame, const std::string& caller) {
  for (std::string& line : attention_lines(frame.detail))
    if (std::ranges::find(attention_, line) == attention_.end())
      attention_.push_back(std::move(line));
  const Json& returned = object_at(frame.detail, "returned");
  if (!frame.symbol || list_at(returned, kValues).empty()) return;
  const std::string key = function_key(*frame.symbol);
  for (const std::string& of : {std::string(), caller}) {
    Json& all = returned_[{key, of}];
    if (all.is_null()) all = {{"type", text_at(returned, "type")}, {kValues, Json::array()}};
    add_values(returned, all);
    if (caller.empty()) break;
  }
}

const Json& ReturnedInCalls::of(std::string_view symbol, std::string_view caller) const {
  static const Json kNull;
  // An index has some functions under their keys already.
  const std::string key = function_key(symbol);
  const std::string by = function_key(caller);
  const auto found = returned_.find({key, functions_.contains(by) ? by : std::string()});
  if (found != returned_.end()) return found->second;
  return kNull;
}

std::vector<std::string> ReturnedInCalls::attention_lines_of(const BackendName& backend) const {
  std::vector<std::string> lines;
  for (const std::string& line : attention_)
    if (backend.is_in(line.substr(0, line.find(':')))) lines.push_back(line);
  return lines;
}

}  // namespace optrace
