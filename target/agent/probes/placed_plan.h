#pragma once

#include <cstdint>

#include "target/agent/probes/plan_reader.h"
#include "target/agent/probes/probe_slots.h"
#include "target/agent/process/modules.h"
#include "target/agent/process/pages.h"
#include "target/interface/recording_format.h"

namespace optrace::agent {

/// A plan that is or was placed. Its ids and slots are kept, because a thread may still be in a
/// slot, and are reused when the same plan is placed again.
struct PlacedPlan {
  PageArray<char> path;  ///< Null-terminated.
  PageArray<std::uint8_t> bytes;
  PlanView view;
  LoadedModule module;
  Slab slab;
  void* pin = nullptr;                     ///< Keeps the module loaded while probes are in it.
  recording::ProbeRange* range = nullptr;  ///< The plan's section in the region's arena.
  std::uint32_t described_region = 0;      ///< Serial of the region that `range` points into.
  std::uint32_t first_id = 0;
  std::uint32_t placed_count = 0;  ///< Number of probes placed the last time.
  bool placed = false;
};

}  // namespace optrace::agent
