#pragma once

// As crt/host_defines.h beside it: what cuda_runtime.h includes first. It refuses compilers that
// nvcc cannot work with; no such thing matters here.
