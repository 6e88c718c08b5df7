#pragma once

#include <cstdint>

#include "target/agent/recording/region.h"

namespace optrace::agent {

// Op records are stored independently of recordings. Each is passed once, and belongs to every
// recording from then on until the records are forgotten, including those of a forked child.

/// Returns an id that no other record has.
std::uint32_t new_op_record();

/// Stores a record and writes it to the current region. Returns false if there is
/// no room. Any number of threads may call it at once.
bool keep_op_record(std::uint32_t id, const char* text, std::uint64_t size);

/// Writes all stored records to a region.
void put_op_records(Region& region);

/// Removes all records. No thread may be reading them. Ids are not reused.
void clear_op_records();

}  // namespace optrace::agent
