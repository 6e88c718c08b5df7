#include <string_view>

#include <nlohmann/json.hpp>

#include "platform/json_writer.h"
#include "report/explain/path_tree.h"
#include "report/explain/why_not_output.h"
#include "report/model/line_json.h"

namespace optrace {
namespace {

using json = nlohmann::ordered_json;

json text_or_null(std::string_view text) {
  return text.empty() ? json() : json(text);
}

class JsonWriter {
 public:
  JsonWriter(const WhyNot& it, const CallAtHand* call, const ExplanationSource& source)
      : it_(it), call_(call), source_(source), link_(source.git_version, source.version) {}

  json write() const {
    json all;
    all["schema"] = "optrace.why_not/1";
    all["torch"] = text_or_null(source_.torch);
    all["source"] = {{"version", text_or_null(source_.version)},
                     {"git_version", text_or_null(source_.git_version)}};
    add_fit(all["source"], source_.fit);
    all["op"] = it_.op;
    all["backend"] = it_.backend;
    all["call"] = call_ == nullptr ? json() : call();
    all["devices"] = json::array();
    for (const BackendRoutes& routes : it_.devices) all["devices"].push_back(device(routes));
    return all;
  }

 private:
  json call() const {
    return {{"input", call_->input},
            {"device", call_->device},
            {"calls", call_->returned.calls()},
            {"attention", call_->returned.attention_lines_of(BackendName(it_.backend))}};
  }

  json place(const SourceLocation& location) const {
    if (location.file.empty()) return {};
    json place = {{"file", location.file}};
    add_line(place, location.line, location.approximate, source_.fit);
    place["url"] = text_or_null(link_.of_native(location.file, location.line));
    return place;
  }

  json called(const SourceLocation& caller, std::uint32_t line,
              const std::optional<LineInterval>& approximate) const {
    return line == 0 ? json() : place({caller.file, line, approximate});
  }

  json device(const BackendRoutes& routes) const {
    json functions = json::array();
    for (const FunctionOnTheWay& function : routes.functions) {
      json entries = json::array();
      for (const PathStep& step : function.entries)
        entries.push_back(
            {{"kind", name_of(step.kind)},
             {"name", name_of(step)},
             {"source", place(step.location)},
             {"called", called(function.location, step.call_line, step.call_approximate)}});
      functions.push_back(
          {{"name", function.name},
           {"symbol", function.symbol},
           {"source", place(function.location)},
           {"complete", function.complete},
           {"predicates", predicates(function.predicates, function.symbol, function.location)},
           {"entries", entries}});
    }
    return {{"device", routes.device}, {"key", routes.key}, {"functions", functions}};
  }

  json predicates(const std::vector<Predicate>& all, const std::string& caller,
                  const SourceLocation& place_of_caller) const {
    json array = json::array();
    for (const Predicate& one : all) {
      json made = {{"name", one.name},
                   {"symbol", one.symbol},
                   {"type", text_or_null(one.type)},
                   {"about_backend", one.is_about},
                   {"values_of_backend", one.values},
                   {"by_reference", one.by_reference},
                   {"source", place(one.location)},
                   {"called", called(place_of_caller, one.call_line, one.call_approximate)},
                   {"listed_before", one.listed_before}};
      made["returned"] = call_ == nullptr ? json() : json(call_->returned.of(one.symbol, caller));
      made["predicates"] = predicates(one.parts, one.symbol, one.location);
      array.push_back(std::move(made));
    }
    return array;
  }

  const WhyNot& it_;
  const CallAtHand* call_;
  const ExplanationSource& source_;
  SourceLink link_;
};

}  // namespace

std::string to_json(const WhyNot& why_not, const CallAtHand* call,
                    const ExplanationSource& source) {
  return write_json(JsonWriter(why_not, call, source).write(), 1) + '\n';
}

}  // namespace optrace
