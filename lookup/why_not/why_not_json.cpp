#include <string_view>

#include <nlohmann/json.hpp>

#include "lookup/calls/path_tree.h"
#include "lookup/explain/source_json.h"
#include "lookup/why_not/why_not_output.h"
#include "platform/text/json_writer.h"
#include "present/json_or_null.h"

namespace optrace {
namespace {

using json = nlohmann::ordered_json;

class WhyNotJsonWriter {
 public:
  WhyNotJsonWriter(const WhyNot& it, const ObservedCall* call, const ExplanationSource& source)
      : it_(it), call_(call), source_(source) {}

  json write() const {
    json all;
    all["schema"] = "optrace.why_not/1";
    source_.add_to(all);
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
            {"calls", call_->calls},
            {"attention", call_->attention}};
  }

  json device(const BackendRoutes& routes) const {
    json functions = json::array();
    for (const FunctionOnTheWay& function : routes.functions) {
      json entries = json::array();
      for (const PathStep& step : function.entries)
        entries.push_back({{"kind", name_of(step.kind)},
                           {"name", name_of(step)},
                           {"source", source_.place(step.location)},
                           {"called", source_.place_of_line(function.location.file, step.call_line,
                                                            step.call_approximate)}});
      functions.push_back(
          {{"name", function.name},
           {"symbol", function.symbol},
           {"source", source_.place(function.location)},
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
                   {"source", source_.place(one.location)},
                   {"called", source_.place_of_line(place_of_caller.file, one.call_line,
                                                    one.call_approximate)},
                   {"listed_before", one.listed_before}};
      made["returned"] =
          call_ == nullptr ? json() : json(call_->returned(one.symbol, caller).values);
      made["predicates"] = predicates(one.parts, one.symbol, one.location);
      array.push_back(std::move(made));
    }
    return array;
  }

  const WhyNot& it_;
  const ObservedCall* call_;
  const SourceJson source_;
};

}  // namespace

std::string to_json(const WhyNot& why_not, const ObservedCall* call,
                    const ExplanationSource& source) {
  return write_json(WhyNotJsonWriter(why_not, call, source).write(), 1) + '\n';
}

}  // namespace optrace
