// trace_reports PYTHON FOLDER CASE...: traces the cases one after another in one Python process,
// for the comparison with gdb. Before that, runs each case as often as CPython needs to rewrite its
// bytecode. A CASE is an op as optrace spells it, optionally followed by `+backward`. For the Nth
// case, from 0, writes FOLDER/N.json, a report with every frame, and prints a line of JSON:
// {"case", "paths", "path_differences", "first_difference"} (path_sums.h).

#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/process/interrupt.h"
#include "report/json/report_json.h"
#include "report/merge/merge.h"
#include "report/model/report.h"
#include "tracer/launch/op_tracer.h"
#include "truth/path_sums.h"

namespace {

using namespace optrace;

constexpr int kWarmUps = 12;  // CPython 3.11 rewrites a function at its eighth call.

OpCall call_of(std::string_view name) {
  constexpr std::string_view kBackward = "+backward";
  OpCall call;
  call.backward = name.ends_with(kBackward);
  if (call.backward) name.remove_suffix(kBackward.size());
  call.op = name;
  return call;
}

void trace_all(const std::filesystem::path& python, const std::filesystem::path& folder,
               std::span<char*> cases) {
  const InterruptGuard guard;
  LaunchRequest request;
  request.python = python;
  request.python_reason = "the command line";
  const LaunchProgress progress = [](std::string_view) {};
  OpTracer tracer(request, progress);
  // Warm up the bytecode of the recording function, then that of the functions that the cases call.
  for (int i = 0; i < kWarmUps; ++i) tracer.trace(tracer.prepare(call_of("add+backward")));
  std::vector<std::size_t> calls;
  for (const char* const name : cases) {
    for (int i = 0; i < kWarmUps; ++i) tracer.prepare(call_of(name));
    calls.push_back(tracer.prepare(call_of(name)));
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Trace trace = tracer.trace(calls[i]);
    OutputFile file(folder / fmt::format("{}.json", i));
    to_json(merge(trace, nullptr, {.all = true}), file);
    file.commit();
    const PathSums sums = compare_path_sums(trace);
    const nlohmann::json line = {{"case", cases[i]},
                                 {"paths", sums.paths},
                                 {"path_differences", sums.differences},
                                 {"first_difference", sums.first}};
    fmt::print("{}\n", line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  }
  tracer.finish();
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 4) {
    fmt::print(stderr, "usage: trace_reports PYTHON FOLDER CASE...\n");
    return 2;
  }
  trace_all(arguments[1], arguments[2],
            std::span(arguments, static_cast<std::size_t>(count)).subspan(3));
  return 0;
} catch (const optrace::Error& error) {
  fmt::print(stderr, "trace_reports: {}\n{}\n", error.what(), error.remedy());
  return static_cast<int>(error.status());
} catch (const std::exception& error) {
  fmt::print(stderr, "trace_reports: {}\n", error.what());
  return 3;
}
