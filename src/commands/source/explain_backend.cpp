#include "src/commands/source/explain_backend.h"

#include <algorithm>
#include <functional>

#include <fmt/core.h>

#include "lookup/explain/explain.h"
#include "platform/error.h"
#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "pytorch/names/op_name.h"
#include "report/details/returned_in_calls.h"
#include "report/details/returned_values.h"
#include "src/commands/tracing/command_input.h"

namespace optrace {
namespace {

void require_result_types(const Index& torch) {
  if (torch.has_result_types()) return;
  throw Error(ExitStatus::usage,
              fmt::format("the index of PyTorch {} has no types of results, so it does not show "
                          "which functions decide",
                          torch.torch_version()),
              "Make a new one: `optrace source add DIR`, with a checkout of that version.");
}

[[noreturn]] void throw_unreachable(const SourceIndexes& index, const BackendQuestion& question,
                                    const std::vector<std::string>& devices) {
  const std::vector<std::string_view> others = reachable_backends(index, question.op, devices);
  throw Error(ExitStatus::usage,
              fmt::format("no call path of {} on {} leads to a backend '{}'", question.op,
                          joined(devices, " or "), printable(question.backend)),
              others.empty()
                  ? fmt::format("`optrace explain {} --all` lists its call paths: none of "
                                "them leads to a known backend.",
                                split_op_name(question.op).base)
                  : fmt::format("Those of the op are: {}.", joined(others, ", ")));
}

ObservedResult observed_result(const ReturnedValues& returned) {
  ObservedResult result{.type = returned.type, .values = {}, .text = returned_text(returned)};
  for (const CountedResult& one : returned.values)
    result.values.push_back({.value = one.value, .name = one.name, .calls = one.calls});
  return result;
}

ObservedCall observed_call(const BackendQuestion& question, const Report& report) {
  const ReturnedInCalls returned(report, question.op);
  if (returned.calls() == 0)
    throw Error(ExitStatus::usage,
                fmt::format("{} has no call of {}", printable(question.call), question.op),
                "Give --call a trace or report with such a call, or a command that makes one.");
  return {.input = question.call,
          .device = report.device,
          .calls = returned.calls(),
          .attention = returned.attention_lines_of(BackendName(question.backend)),
          .returned = [returned](std::string_view symbol, std::string_view caller) {
            const ReturnedValues* const values = returned.of(symbol, caller);
            return values == nullptr ? ObservedResult() : observed_result(*values);
          }};
}

}  // namespace

BackendAnswer answer_why_not(const SourceIndexes& index, const BackendQuestion& question) {
  require_result_types(index.torch());
  const BackendName backend(question.backend);
  std::vector<std::string> devices = question.devices;
  if (devices.empty()) devices = default_devices();
  BackendAnswer answer{why_not(index, question.op, backend, devices, question.all), {}};
  if (answer.why_not.devices.empty()) throw_unreachable(index, question, devices);
  if (question.call.empty()) return answer;
  const Report report = read_input(question.call).report;
  answer.call = observed_call(question, report);
  if (!question.devices.empty()) return answer;
  // If the op reaches the backend on other devices only, the functions that decide about it there
  // may have been called, too.
  const auto is_of_call = [&](const BackendRoutes& routes) {
    return routes.device == report.device;
  };
  if (std::ranges::any_of(answer.why_not.devices, is_of_call))
    std::erase_if(answer.why_not.devices, std::not_fn(is_of_call));
  return answer;
}

}  // namespace optrace
