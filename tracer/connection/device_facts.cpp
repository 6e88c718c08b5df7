#include "tracer/connection/device_facts.h"

#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "platform/text/json_reader.h"
#include "target/build/built_for_torch.h"

namespace optrace {
namespace {

/// Returns the texts that all records of a kind have under a key.
std::set<std::string> texts_of(const Trace& trace, const char* kind, const char* key) {
  std::set<std::string> texts;
  for (const std::string& record : trace.op_records) {
    const auto json = read_json(record);
    if (!json.is_object() || json.value("kind", nlohmann::json()) != kind) continue;
    const auto text = json.find(key);
    if (text != json.end() && text->is_string()) texts.insert(text->get<std::string>());
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
  for (const std::string& function : texts_of(trace, "unimplemented", "call"))
    trace.meta.warnings.push_back(fmt::format("{} is not emulated; calls of it fail.", function));
}

void add_activity_warnings(Trace& trace) {
  const std::set<std::string> reasons = texts_of(trace, "activity_missing", "why");
  for (const std::string& reason : reasons) trace.meta.warnings.push_back(reason);
  if (!reasons.empty()) ++trace.meta.shortfalls["device_work_missing"];
}

}  // namespace optrace
