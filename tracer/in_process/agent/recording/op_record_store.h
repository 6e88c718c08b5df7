#pragma once

#include <cstdint>

#include "tracer/in_process/agent/recording/region.h"

namespace optrace::agent {

// Op records are kept outside of any recording too: whoever made them says them once, and they
// belong to every recording from then on until they are forgotten, a forked child's included.

/// An id that no other record has.
std::uint32_t new_op_record();

/// Keeps a record, and puts it into the current region if that is shared. Any number of threads at
/// once. False when there is no room for it.
bool keep_op_record(std::uint32_t id, const char* text, std::uint64_t size);

/// Puts all that are kept into a shared region.
void put_op_records(Region& region);

/// Forgets all: nobody may be reading them. Ids are not given again.
void forget_op_records();

using VisitOpRecord = void (*)(const recording::OpRecord& record, const char* text,
                               std::uint64_t size, void* argument);
void for_each_op_record(VisitOpRecord visit, void* argument);

}  // namespace optrace::agent
