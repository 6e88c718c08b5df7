#include "tracer/trace.h"
