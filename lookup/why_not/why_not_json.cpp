#include <string>
#include <vector>

#include "lookup/calls/path_tree.h"
#include "lookup/locate/source_json.h"
#include "lookup/why_not/why_not_output.h"

namespace optrace {
namespace {

class WhyNotJsonWriter {
 public:
  WhyNotJsonWriter(JsonStream& json, const WhyNot& it, const ObservedCall* call,
                   const IndexedSource& source)
      : json_(json), it_(it), call_(call), source_(json, source) {}

  void write() const {
    json_.object([&] {
      json_.field("schema", "optrace.why_not/1");
      source_.add_source();
      json_.field("op", it_.op);
      json_.field("backend", it_.backend);
      add_call();
      json_.key("devices").objects(it_.devices, [&](const BackendRoutes& routes) {
        json_.field("device", routes.device);
        json_.field("key", routes.key);
        json_.key("functions").objects(routes.functions, [&](const FunctionOnTheWay& function) {
          add_function(function);
        });
      });
    });
  }

 private:
  void add_call() const {
    json_.key("call");
    if (call_ == nullptr) {
      json_.null();
      return;
    }
    json_.object([&] {
      json_.field("input", call_->input);
      json_.field("device", call_->device);
      json_.field("calls", call_->calls);
      json_.field("attention", call_->attention);
    });
  }

  void add_function(const FunctionOnTheWay& function) const {
    json_.field("name", function.name);
    json_.field("symbol", function.symbol);
    source_.add_place("source", function.location);
    json_.field("complete", function.complete);
    add_predicates(function.predicates, function.symbol, function.location);
    json_.key("entries").objects(function.entries, [&](const PathStep& step) {
      json_.field("kind", name_of(step.kind));
      json_.field("name", name_of(step));
      source_.add_place("source", step.location);
      source_.add_place_of_line("called", function.location.file, step.call_line,
                                step.call_approximate);
    });
  }

  void add_predicates(const std::vector<Predicate>& all, const std::string& caller,
                      const SourceLocation& place_of_caller) const {
    json_.key("predicates").objects(all, [&](const Predicate& one) {
      json_.field("name", one.name);
      json_.field("symbol", one.symbol);
      json_.text_or_null("type", one.type);
      json_.field("about_backend", one.is_about);
      json_.field("values_of_backend", one.values);
      json_.field("by_reference", one.by_reference);
      source_.add_place("source", one.location);
      source_.add_place_of_line("called", place_of_caller.file, one.call_line,
                                one.call_approximate);
      json_.field("listed_before", one.listed_before);
      add_returned(call_ == nullptr ? ObservedResult{} : call_->returned(one.symbol, caller));
      add_predicates(one.parts, one.symbol, one.location);
    });
  }

  // As `detail.returned` of a report (docs/report-format.md).
  void add_returned(const ObservedResult& result) const {
    json_.key("returned");
    if (result.values.empty()) {
      json_.null();
      return;
    }
    const ObservedValue* const only = result.values.size() == 1 ? &result.values[0] : nullptr;
    json_.object([&] {
      if (only != nullptr) add_name(*only);
      json_.field("type", result.type);
      if (only != nullptr) add_value(*only);
      json_.key("values").objects(result.values, [&](const ObservedValue& one) {
        json_.field("calls", one.calls);
        add_name(one);
        add_value(one);
      });
    });
  }

  void add_name(const ObservedValue& one) const {
    if (!one.name.empty()) json_.field("name", one.name);
  }

  void add_value(const ObservedValue& one) const {
    json_.key("value");
    if (const bool* const boolean = std::get_if<bool>(&one.value))
      json_.value(*boolean);
    else if (const std::int64_t* const number = std::get_if<std::int64_t>(&one.value))
      json_.value(*number);
    else
      json_.null();
  }

  JsonStream& json_;
  const WhyNot& it_;
  const ObservedCall* call_;
  const SourceJson source_;
};

}  // namespace

std::string to_json(const WhyNot& why_not, const ObservedCall* call, const IndexedSource& source) {
  JsonStream json(1);
  WhyNotJsonWriter(json, why_not, call, source).write();
  return json.text() + '\n';
}

}  // namespace optrace
