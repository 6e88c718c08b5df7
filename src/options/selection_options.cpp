#include "src/options/selection_options.h"

#include <cstddef>
#include <string>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "platform/error.h"
#include "src/options/common_options.h"
#include "src/terminal/standard_output.h"

namespace optrace {

void add_ops_option(CLI::App& command, TraceSelection& selection) {
  command
      .add_option(
          "--ops", selection.ops,
          "Record only ops of this name and the calls below them;\n* matches any characters")
      ->type_name("PATTERN");
}

void add_count_option(CLI::App& command, TraceSelection& selection) {
  command.add_option("--count", selection.count, "Record N calls of ops, then stop tracing")
      ->check(whole_number(1))
      ->type_name("N");
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
