// Probe plans, read as by the command and as by the agent, and the branch targets that are stored
// beside them. Version and checksum are corrected here, so that the fuzzer gets past them.
#include <vector>

#include <xxhash.h>

#include "platform/elf/branch_targets.h"
#include "target/agent/probes/plan_reader.h"
#include "tests/fuzz/fuzz_input.h"
#include "tracer/probes/probe_plan.h"

using namespace optrace;

namespace {

std::string sealed_plan(std::string bytes) {
  plan::Header header;
  if (bytes.size() < sizeof header) return bytes;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.version = plan::kVersion;
  header.checksum = XXH3_64bits(bytes.data() + sizeof header, bytes.size() - sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

void read_as_agent(const std::string& bytes) {
  std::vector<std::uint64_t> aligned((bytes.size() + 7) / 8);
  if (!bytes.empty()) std::memcpy(aligned.data(), bytes.data(), bytes.size());
  agent::PlanView view;
  const auto* const start = reinterpret_cast<const std::uint8_t*>(aligned.data());
  if (agent::parse_plan(start, bytes.size(), view) != 0) return;
  for (std::uint32_t i = 0; i < view.header->probe_count; ++i) {
    const plan::Probe& probe = view.probes[i];
    fuzz::use_text({reinterpret_cast<const char*>(view.code) + probe.code_offset, probe.code_size});
    for (std::uint32_t j = 0; j < probe.fixup_count; ++j)
      fuzz::use(plan::Fixup(view.fixups[probe.first_fixup + j]));
  }
  fuzz::use_text({view.path, view.header->path_size});
}

}  // namespace

OPTRACE_READER(plan) {
  const std::string bytes = sealed_plan(std::string(fuzz::Input(data, size).rest()));
  const fuzz::InputFile file(bytes);
  if (const auto plan = ProbePlan::open(file.path())) {
    for (const plan::Probe& probe : plan->probes()) {
      fuzz::use_text(plan->code(probe));
      for (const plan::Fixup& fixup : plan->fixups(probe)) fuzz::use(plan::Fixup(fixup));
    }
    fuzz::use_text(plan->module_path());
  }
  read_as_agent(bytes);
  fuzz::use(BranchTargets::from_bytes(std::as_bytes(std::span(bytes))));
  return 0;
}
