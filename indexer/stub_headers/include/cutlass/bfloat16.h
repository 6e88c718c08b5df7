#pragma once
#include <cutlass/numeric_types.h>
