#include "truth/truth_file.h"

#include <fstream>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>

#include "platform/error.h"
#include "tracer/trace/trace.h"

namespace optrace {

Truth read_truth(const std::filesystem::path& path) {
  std::ifstream file(path);
  const auto refuse = [&](std::size_t line) {
    return Error(ExitStatus::usage,
                 fmt::format("line {} of {} is no line of a truth", line, path.string()),
                 "Step the workload again.");
  };
  Truth truth;
  std::vector<std::string> modules;
  std::unordered_map<std::uint64_t, std::uint32_t> function_of;
  std::string text;
  for (std::size_t number = 1; std::getline(file, text); ++number) {
    std::istringstream line(text);
    std::string kind;
    line >> kind;
    if (kind == "module") {
      std::size_t index = 0;
      std::string module;
      line >> index >> std::ws;
      std::getline(line, module);
      if (line.fail() || index != modules.size()) throw refuse(number);
      modules.push_back(std::move(module));
    } else if (kind == "function") {
      std::uint64_t index = 0;
      std::size_t module = 0;
      TruthFunction function;
      line >> index >> module >> std::hex >> function.address >> function.symbol;
      if (line.fail() || module >= modules.size()) throw refuse(number);
      function.module = modules[module];
      function_of[index] = static_cast<std::uint32_t>(truth.functions.size());
      truth.functions.push_back(std::move(function));
    } else if (kind == "entry") {
      std::uint64_t function = 0;
      std::int64_t parent = 0;
      std::uint32_t depth = 0;
      TruthEntry entry;
      line >> function >> parent >> entry.how >> depth >> std::hex >> entry.stack_pointer;
      const auto found = function_of.find(function);
      const auto count = static_cast<std::int64_t>(truth.entries.size());
      if (line.fail() || found == function_of.end() || parent < -1 || parent >= count) {
        throw refuse(number);
      }
      entry.function = found->second;
      entry.parent = parent < 0 ? kNone : static_cast<std::uint32_t>(parent);
      truth.entries.push_back(std::move(entry));
    } else if (kind == "end") {
      line >> truth.steps;
      if (line.fail()) throw refuse(number);
      return truth;
    } else {
      throw refuse(number);
    }
  }
  throw Error(ExitStatus::usage, fmt::format("{} is no truth, or truncated", path.string()),
              "Step the workload again.");
}

}  // namespace optrace
