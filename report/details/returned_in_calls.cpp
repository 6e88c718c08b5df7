#include "report/details/returned_in_calls.h"

#include <algorithm>

#include "pytorch/symbols/symbol_key.h"
#include "report/details/attention_backends.h"
#include "report/model/op_call.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

/// Adds the values of one frame to those of others.
void add_values(const std::vector<CountedResult>& more, std::vector<CountedResult>& all) {
  for (const CountedResult& value : more) {
    const auto same = std::ranges::find(all, value.value, &CountedResult::value);
    if (same == all.end())
      all.push_back(value);
    else
      same->calls += value.calls;
  }
}

}  // namespace

ReturnedInCalls::ReturnedInCalls(const Report& report, std::string_view op) {
  struct Above {
    bool is_call = false;  // Or below one.
    std::string caller;
  };
  walk_frames(report.roots, Above{}, [&](const Frame& frame, const Above& above) {
    const bool begins = frame.op == op && is_op_call(frame);
    if (begins) calls_ += frame.calls;
    if (!begins && !above.is_call) return Above{};
    add(frame, above.caller);
    Above below{true, frame.symbol ? function_key(*frame.symbol) : std::string()};
    functions_.insert(below.caller);
    return below;
  });
}

void ReturnedInCalls::add(const Frame& frame, const std::string& caller) {
  for (std::string& line : attention_lines(frame.detail->dispatch->attention_backends))
    if (std::ranges::find(attention_, line) == attention_.end())
      attention_.push_back(std::move(line));
  const std::optional<ReturnedValues>& returned = frame.detail->returned;
  if (!frame.symbol || !returned || returned->values.empty()) return;
  const std::string key = function_key(*frame.symbol);
  for (const std::string& of : {std::string(), caller}) {
    ReturnedValues& all = returned_[{key, of}];
    if (all.values.empty()) all.type = returned->type;
    add_values(returned->values, all.values);
    if (caller.empty()) break;
  }
}

const ReturnedValues* ReturnedInCalls::of(std::string_view symbol, std::string_view caller) const {
  // An index has some functions under their keys already.
  const std::string key = function_key(symbol);
  const std::string by = function_key(caller);
  const auto found = returned_.find({key, functions_.contains(by) ? by : std::string()});
  return found == returned_.end() ? nullptr : &found->second;
}

std::vector<std::string> ReturnedInCalls::attention_lines_of(const BackendName& backend) const {
  std::vector<std::string> lines;
  for (const std::string& line : attention_)
    if (backend.is_in(line.substr(0, line.find(':')))) lines.push_back(line);
  return lines;
}

}  // namespace optrace
