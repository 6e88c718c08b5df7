#include "src/commands/source/locate_calls.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lookup/calls/call_graph.h"
#include "lookup/calls/call_hierarchy.h"
#include "lookup/calls/python_calls.h"
#include "lookup/calls/virtual_functions.h"
#include "lookup/locate/cpp_lookup.h"
#include "lookup/locate/entry_locator.h"
#include "lookup/locate/op_lookup.h"
#include "lookup/locate/python_lookup.h"
#include "lookup/locate/source_indexes.h"
#include "lookup/locate/wheel_symbols.h"
#include "platform/error.h"
#include "platform/text/joined.h"
#include "report/formats/html/source_copies.h"
#include "src/inputs/local_sources.h"

namespace optrace {
namespace {

// Returns the text of a file of the source, if it is on this machine.
std::optional<std::string> read_local(const LocalSources& sources, const std::string& file) {
  const std::filesystem::path path = sources.find(file);
  if (path.empty()) return std::nullopt;
  const auto lines = read_source_lines(path);
  if (!lines) return std::nullopt;
  return fmt::format("{}\n", joined(*lines, "\n"));
}

std::vector<std::filesystem::path> libraries_of(const SelectedIndex& choice) {
  if (!choice.torch) return {};
  return WheelSymbols(choice.torch->folder / "lib").files();
}

// Adds the calls of one answer after the other.
class CallAdder {
 public:
  CallAdder(const SelectedIndex& choice, const LocateCalls& calls)
      : calls_(calls),
        sources_(choice),
        indexes_(choice.index, choice.projects),
        entries_(choice.index, projects_of(choice)),
        graph_(indexes_),
        virtual_functions_(libraries_of(choice)) {}

  void add(Located& answer) {
    if (PythonCalls::has_calls(answer)) {
      if (!std::exchange(python_added_, true) && !python_calls_.add(answer, calls_.all))
        answer.note = "its calls are unknown: the source file is not on this machine";
      return;
    }
    if (!CallHierarchy::has_calls(answer) || (!calls_.callers && !calls_.callees)) return;
    // An op's kernels and a stub's are its callees already.
    std::erase_if(answer.parts, [](const Located& part) { return part.role != kMemberOf; });
    const CallHierarchyOptions options{.depth = calls_.depth, .all = calls_.all};
    if (calls_.callers) hierarchy_.add_callers(answer, options);
    if (calls_.callees) hierarchy_.add_callees(answer, options);
  }

 private:
  const LocateCalls& calls_;
  bool python_added_ = false;
  LocalSources sources_;
  SourceIndexes indexes_;
  EntryLocator entries_;
  CallGraph graph_;
  CppLookup cpp_{entries_};
  OpLookup ops_{entries_, cpp_};
  PythonLookup python_{entries_, ops_};
  VirtualFunctions virtual_functions_;
  CallHierarchy hierarchy_{graph_, entries_, ops_, &virtual_functions_};
  PythonCalls python_calls_{indexes_, entries_, ops_, python_,
                            [this](const std::string& file) { return read_local(sources_, file); }};
};

}  // namespace

void add_calls(const SelectedIndex& choice, const LocateCalls& calls, LocateResult& result) {
  if ((calls.callers || calls.callees) &&
      std::ranges::none_of(result.answers, CallHierarchy::has_calls)) {
    throw Error(
        ExitStatus::usage,
        fmt::format("the {} of {} are unknown: it is a {}", calls.callers ? "callers" : "callees",
                    result.answers.front().name, name_of(result.answers.front().kind)),
        "--callers and --callees take a C++ function, a device kernel, a stub or an op.");
  }
  CallAdder adder(choice, calls);
  for (Located& answer : result.answers) adder.add(answer);
}

}  // namespace optrace
