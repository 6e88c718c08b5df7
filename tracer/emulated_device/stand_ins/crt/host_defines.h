#pragma once

// In the place of a header of nvcc's, which the nvidia wheels' own headers include but which comes
// with a wheel that torch does not ask for: what host code of a C++ compiler needs of it.
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
