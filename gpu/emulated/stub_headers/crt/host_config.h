#pragma once

// Like crt/host_defines.h: a replacement of a header that cuda_runtime.h includes first. The
// original rejects compilers that nvcc does not support, which is irrelevant here.
