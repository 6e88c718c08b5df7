#pragma once

#include <cstdint>

#include "tracer/in_process/agent/interface/recording_format.h"
#include "tracer/in_process/agent/probes/plan_reader.h"
#include "tracer/in_process/agent/probes/probe_slots.h"
#include "tracer/in_process/agent/process/modules.h"
#include "tracer/in_process/agent/process/pages.h"

namespace optrace::agent {

/// A plan that is placed, or was: its ids and slots stay, because a thread may still be in a slot,
/// and serve again when the same plan is placed anew.
struct PlacedPlan {
  PageArray<char> path;  ///< Terminated.
  PageArray<std::uint8_t> bytes;
  PlanView view;
  LoadedModule module;
  Slab slab;
  void* pin = nullptr;                     ///< Keeps the module loaded while probes are in it.
  recording::ProbeRange* range = nullptr;  ///< What a region's arena says of it,
  std::uint32_t described_region = 0;      ///< if it is this one (Region::serial).
  std::uint32_t first_id = 0;
  std::uint32_t placed_count = 0;  ///< Probes, when it was placed last.
  bool placed = false;

  void release();
};

}  // namespace optrace::agent
