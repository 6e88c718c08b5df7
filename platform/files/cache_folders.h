#pragma once

namespace optrace::cache_folders {

// The names of the folders in the cache (platform/files/private_folder.h), one for each kind of
// contents. src/cache/cache_contents.cpp describes what is in them.

inline constexpr const char* kActivityAgents = "activity-agents";
inline constexpr const char* kCudaCalls = "cuda-calls";
inline constexpr const char* kEmulatedDevices = "emulated-devices";
inline constexpr const char* kGeneratedCode = "generated-code";
inline constexpr const char* kIndexes = "indexes";
inline constexpr const char* kIndexing = "source";
inline constexpr const char* kKernelOrigins = "kernel-origins";
inline constexpr const char* kOpAgents = "op-agents";
inline constexpr const char* kPlans = "plans";
inline constexpr const char* kTraces = "traces";

}  // namespace optrace::cache_folders
