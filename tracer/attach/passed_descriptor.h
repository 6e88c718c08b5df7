#pragma once

#include <cstdint>

#include "platform/files/descriptor.h"
#include "platform/process/running_process.h"
#include "tracer/attach/stopped_thread.h"

namespace optrace {

/// Bytes of the process's memory that pass_descriptor() fills.
inline constexpr std::size_t kPassingBytes = 512;

/// Returns a copy of a descriptor of a process that a stopped thread belongs to. Takes it with
/// pidfd_getfd, or, where the system refuses that to containers or is too old for it, makes the
/// process send it, which works in the same network namespace. `memory` is the address of
/// kPassingBytes in the process, a multiple of 16. Throws the error of why_not_allowed() if neither
/// works.
Descriptor pass_descriptor(const RunningProcess& process, StoppedThread& thread, int descriptor,
                           std::uint64_t memory);

}  // namespace optrace
