#pragma once

#include <string>

#include "indexer/store/index_store.h"

namespace optrace {

/// Opens the index that a user names by one of these: an index file; a version of torch that has an
/// index (`2.6.0`); a Python or a virtual environment whose torch has an index; a PyTorch source
/// tree that has an index. A name with a slash, or of an existing file or folder, is a path. Throws
/// Error(usage) if there is no such index; the message lists those that exist.
Index open_index_operand(const std::string& name);

}  // namespace optrace
