#pragma once

// Replaces a header of nvcc that the nvidia wheels' headers include but that is in a wheel PyTorch
// does not require. Contains the parts needed by host code of a C++ compiler.
#ifndef CUDARTAPI
#define CUDARTAPI
#endif
#define CUDARTAPI_CDECL
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __no_return__ __attribute__((noreturn))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __cdecl
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __grid_constant__
#define __cluster_dims__(...)
#define __launch_bounds__(...)
#define __specialization_static
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
