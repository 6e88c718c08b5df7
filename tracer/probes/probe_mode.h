#pragma once

namespace optrace {

/// How functions are patched.
enum class ProbeMode {
  jump,  ///< 5-byte jumps, int3 where one does not fit. For a process that optrace starts.
  trap,  ///< int3 everywhere.
};

/// Returns the value of --probes and of TraceMeta::Probes::mode.
constexpr const char* name_of(ProbeMode mode) {
  return mode == ProbeMode::jump ? "jump" : "int3";
}

}  // namespace optrace
