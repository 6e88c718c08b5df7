#pragma once
#include "tuple.h"  // tuple.h also has pair and make_pair.
