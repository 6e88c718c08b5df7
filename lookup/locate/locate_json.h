#pragma once

#include "indexer/store/indexed_source.h"
#include "lookup/locate/located.h"
#include "platform/text/json_stream.h"

namespace optrace {

/// Adds the place of an answer to an object: `file`, `line`, `exact`, `interval`.
void add_place(JsonStream& json, const Located& located, const IndexedSource& source);

/// Adds the field `source`, which describes the index.
void add_source(JsonStream& json, const IndexedSource& source);

}  // namespace optrace
