#include "src/options/selection_options.h"

#include <cstddef>
#include <string>

#include <fmt/core.h>

#include "platform/error.h"
#include "src/terminal/standard_output.h"

namespace optrace {

OptionRow ops_row(TraceSelection& selection) {
  return {"--ops", "PATTERN",
          "Record only ops of this name and the calls below them;\n* matches any characters",
          &selection.ops};
}

OptionRow count_row(TraceSelection& selection) {
  return {"--count", "N", "Record N calls of ops, then stop tracing", &selection.count,
          WholeNumber(1)};
}

OptionRow window_rows(WindowOptions& window) {
  return OptionRows{
      {"--from-step", "N",
       "Record from step N on (1 is the first) and place no probes\nbefore; a step ends where the "
       "optimizer has stepped, or\nwhere the program calls optrace.step()",
       &window.from_step, WholeNumber(1)},
      {"--count", "N",
       "Record N calls of ops, then stop tracing; with --from-step,\nrecord N steps, then remove "
       "the probes",
       &window.count, WholeNumber(1)},
  };
}

std::optional<StepWindow> take_window(const WindowOptions& window, TraceSelection& selection) {
  if (window.from_step == 0) {
    selection.count = window.count;
    return std::nullopt;
  }
  if (selection.skip != 0) {
    throw Error(ExitStatus::usage, "--skip counts calls of ops, --from-step counts steps",
                "Give only one of them.");
  }
  constexpr std::uint64_t kMax = 1'000'000'000'000;
  if (window.from_step > kMax || window.count > kMax) {
    throw Error(ExitStatus::usage, "no program makes that many steps",
                "Give --from-step and --count smaller numbers.");
  }
  return StepWindow{.first = window.from_step, .count = window.count};
}

void require_selection(const TraceSelection& selection) {
  constexpr std::size_t kMaxLength = 1000;
  if (selection.ops.size() > kMaxLength) {
    throw Error(ExitStatus::usage, "the pattern of --ops is longer than any op's name",
                "Give a name with * for any characters, such as --ops 'aten::conv*'.");
  }
  const std::string& module = selection.from_module;
  if (module.size() > kMaxLength || module.starts_with('.') || module.ends_with('.')) {
    throw Error(ExitStatus::usage, fmt::format("'{}' is not the name of a Python module", module),
                "Give the name as in an import statement: --from-module my_package.model");
  }
}

bool warn_of_empty_selection(const TraceSelection& selection) {
  if (!selection.ops.empty()) {
    write_message(fmt::format("no op that was called matches --ops '{}'", selection.ops),
                  "Names look like aten::conv2d; `optrace explain OP` finds them. * matches any "
                  "characters.");
  } else if (!selection.from_module.empty()) {
    write_message(
        fmt::format("no op was called from a module named {}", selection.from_module),
        "Give the full name of the module, with its package; the script itself is __main__.");
  }
  return !selection.ops.empty() || !selection.from_module.empty();
}

}  // namespace optrace
