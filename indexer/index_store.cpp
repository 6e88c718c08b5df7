#include "indexer/index_store.h"
