#include "indexer/symbol_key.h"
