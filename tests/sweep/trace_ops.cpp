// trace_ops PYTHON: traces calls one after another in one Python process, for the sweep (sweep.py)
// and for tests. Each line of standard input is a call, {"op": ..., "backward": ...}, and may have
// what the command's options of these names give it: "shapes": [["weight", [4, 2]]], where "" is
// the first tensor, "dtypes": [["x", "int32"]], "input" and "requires_grad". With a "report", the
// name of a file, its report is written there as JSON, and it is not compared with untraced calls.
// Each line of standard output is a call with its result, in no particular order:
//   {..., "error", "remedy", "status"}                     it could not be called, or not traced
//   {..., "call", "inputs", "sample_from", "warnings", "repeatable", "equal", "dispatched",
//   "kernel"}
// where "kernel" is null or {"name", "file", "line"}: a frame of layer kernel or library below a
// dispatcher's frame, whose definition is in the index; the first that is not a generated wrapper,
// or else the first. If the traced Python dies, the last line has "died" in place of "error"; calls
// without a line were not tried.

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "indexer/store/index_catalogue.h"
#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/process/interrupt.h"
#include "report/json/report_json.h"
#include "report/merge/merge.h"
#include "report/model/report.h"
#include "tracer/launch/op_tracer.h"
#include "tracer/trace/trace_meta_json.h"

namespace {

using Json = nlohmann::json;
using namespace optrace;

void say(const Json& line) {
  std::cout << line.dump(-1, ' ', true, Json::error_handler_t::replace) << '\n' << std::flush;
}

/// Adds the report's data about a call's path through PyTorch to `line`. Not recursive, since the
/// tree may have any depth.
void add_way(const Report& report, Json& line) {
  std::vector<std::pair<const Frame*, bool>> stack;  // True: below a dispatcher.
  for (std::size_t i = report.roots.size(); i-- > 0;) stack.emplace_back(&report.roots[i], false);
  line["dispatched"] = false;
  line["kernel"] = nullptr;
  while (!stack.empty()) {
    const auto [frame, below] = stack.back();
    stack.pop_back();
    const bool dispatcher = frame->layer == Layer::dispatcher;
    if (dispatcher) line["dispatched"] = true;
    const bool kernel = frame->layer == Layer::kernel || frame->layer == Layer::library;
    if (below && kernel && frame->source && frame->source->line > 0) {
      const bool generated = frame->source->file.starts_with("build/");
      if (!generated || line["kernel"].is_null()) {
        line["kernel"] = {
            {"name", frame->name}, {"file", frame->source->file}, {"line", frame->source->line}};
      }
      if (!generated) return;
    }
    for (std::size_t i = frame->children.size(); i-- > 0;) {
      stack.emplace_back(&frame->children[i], below || dispatcher);
    }
  }
}

OpCall call_of(const Json& line) {
  OpCall call;
  call.op = line.at("op");
  call.backward = line.at("backward");
  call.requires_grad = line.value("requires_grad", false);
  for (const Json& shape : line.value("shapes", Json::array())) {
    call.shapes.push_back({shape.at(0), shape.at(1).get<std::vector<std::int64_t>>()});
  }
  for (const Json& dtype : line.value("dtypes", Json::array())) {
    call.dtypes.push_back({dtype.at(0), dtype.at(1)});
  }
  if (line.contains("input")) call.input = line["input"].get<std::string>();
  call.compare = !line.contains("report");
  return call;
}

struct Prepared {
  Json line;
  std::size_t call;
};

int run(const char* python) {
  const InterruptGuard guard;
  LaunchRequest request;
  request.python = python;
  request.python_reason = "the command line";
  const LaunchProgress progress = [](std::string_view) {};
  OpTracer tracer(request, progress);
  std::vector<Prepared> prepared;
  // Prints the error. Returns false if the tracer can't go on.
  const auto failed = [&](Json line, const Error& error) {
    line[tracer.alive() ? "error" : "died"] = error.what();
    line["remedy"] = error.remedy();
    line["status"] = static_cast<int>(error.status());
    say(line);
    return tracer.alive();
  };
  // All calls run untraced first, while no probe is placed.
  for (std::string text; std::getline(std::cin, text);) {
    const Json line = Json::parse(text);
    try {
      prepared.push_back({line, tracer.prepare(call_of(line))});
    } catch (const Error& error) {
      if (!failed(line, error)) return 3;
    }
  }
  std::optional<Index> index;
  bool indexed = false;
  for (const Prepared& each : prepared) {
    try {
      const Trace trace = tracer.trace(each.call);
      if (!std::exchange(indexed, true)) {
        index = find_index(trace.meta.torch.version, trace.meta.torch.git_version, nullptr);
      }
      Json line = each.line;
      const Json meta = to_json(trace.meta);
      for (const char* key : {"call", "inputs", "sample_from", "warnings"}) line[key] = meta[key];
      const auto comparison = trace.meta.comparison.value_or(TraceMeta::Comparison());
      line["repeatable"] = comparison.repeatable;
      line["equal"] = comparison.equal;
      const Report report = merge(trace, index ? &*index : nullptr, {});
      if (line.contains("report")) {
        OutputFile file(line["report"].get<std::string>());
        to_json(report, file);
        file.commit();
      }
      add_way(report, line);
      say(line);
    } catch (const Error& error) {
      if (!failed(each.line, error)) return 3;
    }
  }
  tracer.finish();
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2) {
    fmt::print(stderr, "usage: trace_ops PYTHON < calls\n");
    return 2;
  }
  return run(arguments[1]);
} catch (const optrace::Error& error) {
  fmt::print(stderr, "trace_ops: {}\n{}\n", error.what(), error.remedy());
  return static_cast<int>(error.status());
} catch (const std::exception& error) {
  fmt::print(stderr, "trace_ops: {}\n", error.what());
  return 2;
}
