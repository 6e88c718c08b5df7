#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/in_process/agent/interface/plan_format.h"
#include "tracer/in_process/agent/process/pages.h"

namespace optrace::agent {

/// A plan whose every offset and count was checked; points into the bytes that it was parsed from.
struct PlanView {
  const plan::Header* header = nullptr;
  const plan::Probe* probes =
      nullptr;  ///< header->probe_count, addresses ascending, all different.
  const plan::Fixup* fixups = nullptr;
  const std::uint8_t* code = nullptr;
  const char* path = nullptr;  ///< header->path_size bytes, not terminated.
};

/// Checks `size` bytes at `bytes` (8-byte aligned) and points `view` into them. -EBADMSG or
/// -EPROTONOSUPPORT as optrace_agent_place; `view` is then unchanged. What can't be known from the
/// file, whether addresses lie in the module, is left to the caller.
int parse_plan(const std::uint8_t* bytes, std::uint64_t size, PlanView& view);

/// Reads a plan file into `bytes` and parses it. A copy, not a mapping: a file that shrinks while
/// mapped would kill the process.
int load_plan(const char* path, PageArray<std::uint8_t>& bytes, PlanView& view);

}  // namespace optrace::agent
