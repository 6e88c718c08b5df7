// The additions of nvcc to C++ that are needed to parse the host side of a .cu file: keywords and
// built-in variables, the launch syntax, and enough of the device library for a parser to continue.
// Never compiled to code.
#pragma once

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __CUDACC__ 1
#define __CUDACC_EXTENDED_LAMBDA__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 4
#define CUDARTAPI
#define CUDART_CB

// Before clang's own wrappers of these, which nvcc's headers would otherwise come behind.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <driver_types.h>
#include <vector_types.h>

extern const uint3 threadIdx;
extern const uint3 blockIdx;
extern const dim3 blockDim;
extern const dim3 gridDim;
extern const int warpSize;

// The call that <<<grid, block, shared, stream>>> is translated to.
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, unsigned long shared = 0,
                                                struct CUstream_st* stream = nullptr);

__device__ void __syncthreads();
__device__ void __syncwarp(unsigned mask = ~0U);
__device__ void __threadfence();
__device__ int __syncthreads_or(int);
__device__ int __syncthreads_and(int);
__device__ int __syncthreads_count(int);
__device__ unsigned __activemask();
__device__ unsigned __ballot_sync(unsigned, int);
__device__ int __any_sync(unsigned, int);
__device__ int __all_sync(unsigned, int);
__device__ int __popc(unsigned);
__device__ int __popcll(unsigned long long);
__device__ int __ffs(int);
__device__ int __clz(int);
template <class T>
__device__ T __shfl_sync(unsigned, T, int, int = 32);
template <class T>
__device__ T __shfl_up_sync(unsigned, T, unsigned, int = 32);
template <class T>
__device__ T __shfl_down_sync(unsigned, T, unsigned, int = 32);
template <class T>
__device__ T __shfl_xor_sync(unsigned, T, int, int = 32);
template <class T>
__device__ T __ldg(const T*);
template <class T, class V>
__device__ T atomicAdd(T*, V);
template <class T, class V>
__device__ T atomicMax(T*, V);
template <class T, class V>
__device__ T atomicMin(T*, V);
template <class T, class V>
__device__ T atomicExch(T*, V);
template <class T, class V>
__device__ T atomicCAS(T*, V, V);

template <class A, class B>
__device__ auto min(A a, B b) -> decltype(a < b ? a : b);
template <class A, class B>
__device__ auto max(A a, B b) -> decltype(a < b ? a : b);
__device__ float __int_as_float(int);
__device__ int __float_as_int(float);
__device__ float __uint_as_float(unsigned);
__device__ unsigned __float_as_uint(float);
__device__ double __longlong_as_double(long long);
__device__ long long __double_as_longlong(double);
__device__ float __fdividef(float, float);
__device__ float __expf(float);
__device__ float __logf(float);
__device__ float __log2f(float);
__device__ float __powf(float, float);
__device__ float __sinf(float);
__device__ float __cosf(float);
__device__ float __frcp_rn(float);
__device__ float __fsqrt_rn(float);
__device__ float __saturatef(float);
__device__ float rsqrt(float);
__device__ double rsqrt(double);
__device__ float rsqrtf(float);
__device__ int __umulhi(unsigned, unsigned);
__device__ unsigned __brev(unsigned);
__device__ unsigned __vadd4(unsigned, unsigned);
__device__ void __trap();
__device__ void __nanosleep(unsigned);
__device__ void __threadfence_block();
__device__ void __threadfence_system();
__device__ void __prof_trigger(int);
__device__ long long clock64();

#include <cuda_bf16.h>
#include <cuda_fp16.h>
