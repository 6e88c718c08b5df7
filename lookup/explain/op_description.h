#pragma once

#include <string>
#include <vector>

#include "indexer/store/op_facts.h"
#include "lookup/locate/source_indexes.h"
#include "pytorch/names/op_schema.h"

namespace optrace {

/// Describes an op in sentences: its use of memory, and how its kernels are made.
std::vector<std::string> describe_op(const SourceIndexes& index, const OpFacts& facts,
                                     const OpSchema& schema);

}  // namespace optrace
