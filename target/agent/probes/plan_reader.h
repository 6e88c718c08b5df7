#pragma once

#include <cstdint>

#include "target/agent/process/pages.h"
#include "target/interface/plan_format.h"

namespace optrace::agent {

/// A plan whose offsets and counts have all been checked. Points into the bytes that it was parsed
/// from.
struct PlanView {
  const plan::Header* header = nullptr;
  /// An array of header->probe_count probes with ascending, unique addresses.
  const plan::Probe* probes = nullptr;
  const plan::Fixup* fixups = nullptr;
  const std::uint8_t* code = nullptr;
  const char* path = nullptr;  ///< header->path_size bytes, not null-terminated.
};

/// Checks `size` bytes at `bytes` (8-byte aligned) and points `view` into them. Returns -EBADMSG or
/// -EPROTONOSUPPORT as optrace_agent_place does, leaving `view` unchanged. The caller must check
/// that the addresses lie in the module.
int parse_plan(const std::uint8_t* bytes, std::uint64_t size, PlanView& view);

/// Reads a plan file into `bytes` and parses it. The file is not mapped, because a mapped file that
/// is truncated would kill the process.
int load_plan(const char* path, PageArray<std::uint8_t>& bytes, PlanView& view);

}  // namespace optrace::agent
