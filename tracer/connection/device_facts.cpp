#include "tracer/connection/device_facts.h"

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "target/build/built_for_torch.h"
#include "tracer/trace/op_record.h"

namespace optrace {
namespace {

/// Returns the texts of all calls of a kind that have one.
std::set<std::string> texts_of(const Trace& trace, const char* kind,
                               std::string LibraryCall::* text) {
  std::set<std::string> texts;
  for (const std::string& written : trace.op_records) {
    if (written.find(kind) == std::string::npos) continue;
    const OpRecord record = read_op_record(written);
    if (const auto* const call = std::get_if<LibraryCall>(&record);
        call != nullptr && call->kind == kind && !(call->*text).empty())
      texts.insert(call->*text);
  }
  return texts;
}

}  // namespace

void describe_dry_run(const DryRun& dry_run, Trace& trace) {
  DryRun::GpuFacts gpu = dry_run.gpu();
  TraceMeta::DryRun& facts = trace.meta.dry_run.emplace();
  facts.device = {std::move(gpu.arch), std::move(gpu.model), dry_run.devices.count};
  for (const std::filesystem::path& library : dry_run.emulation.libraries)
    facts.libraries.push_back(library.filename().string());
  add_not_kept_warning(dry_run.emulation, trace.meta.warnings);
  for (const std::string& function : texts_of(trace, "unimplemented", &LibraryCall::function))
    trace.meta.warnings.push_back(fmt::format("{} is not emulated; calls of it fail.", function));
}

void add_activity_warnings(Trace& trace) {
  const std::set<std::string> reasons = texts_of(trace, "activity_missing", &LibraryCall::why);
  for (const std::string& reason : reasons) trace.meta.warnings.push_back(reason);
  if (!reasons.empty()) ++trace.meta.shortfalls["device_work_missing"];
}

}  // namespace optrace
