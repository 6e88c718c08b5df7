#pragma once
#include "tuple.h"  // It has everything.
