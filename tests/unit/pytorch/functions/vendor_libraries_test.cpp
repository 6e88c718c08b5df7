#include "pytorch/functions/vendor_libraries.h"

#include <catch2/catch.hpp>

#include "pytorch/functions/fortran_routines.h"

using namespace optrace;

TEST_CASE("a function's name tells its library") {
  CHECK(library_name("cublasLtMatmul") == "cuBLASLt");
  CHECK(library_name("cublasSgemm_v2") == "cuBLAS");
  CHECK(library_name("cudaMemcpyAsync") == "CUDA");
  CHECK(library_name("cuLaunchKernel") == "CUDA");
  CHECK(library_name("ideep::tensor::init") == "oneDNN");
  CHECK(library_name("sgemm_") == "BLAS/LAPACK");
  CHECK(library_name("SGEMM") == "BLAS/LAPACK");
  CHECK(library_name("LAPACKE_dgesv").empty());
  CHECK(library_name("at::native::add").empty());
}

TEST_CASE("some functions are hidden in CUDA's own files") {
  CHECK(visibility_in_library_file("cudaMallocAsync", "libcudart.so.12") == Visibility::hidden);
  CHECK(visibility_in_library_file("cudaMemcpyAsync", "libcudart.so.12") == Visibility::always);
  CHECK(visibility_in_library_file("cuMemCreate", "libcuda.so.1") == Visibility::hidden);
  CHECK_FALSE(visibility_in_library_file("cudaMalloc", "libtorch_cuda.so"));
}

TEST_CASE("functions of linked libraries are library calls") {
  CHECK(visibility_of_library_call("dnnl_primitive_execute") == Visibility::always);
  CHECK(visibility_of_library_call("dnnl_memory_create") == Visibility::hidden);
  CHECK(visibility_of_library_call("mkl_blas_sgemm") == Visibility::if_leading);
  CHECK_FALSE(visibility_of_library_call("cudaMalloc"));
}

TEST_CASE("libraries work on one kind of memory") {
  CHECK(is_host_library("oneDNN"));
  CHECK(is_host_library("BLAS/LAPACK"));
  CHECK_FALSE(is_host_library("cuDNN"));
  CHECK_FALSE(is_host_library(""));
}

TEST_CASE("functions that set up a library are no work") {
  CHECK(is_library_bookkeeping("cudnnSetStream"));
  CHECK(is_library_bookkeeping("cudaEventCreateWithFlags"));
  CHECK(is_library_bookkeeping("DftiCreateDescriptor_s_1d"));
  CHECK_FALSE(is_library_bookkeeping("cudnnBackendExecute"));
}

TEST_CASE("functions of CUDA launch kernels and wait for devices") {
  CHECK(launches_kernel("cudaLaunchKernelExC"));
  CHECK(launches_kernel("cuLaunchKernel"));
  CHECK_FALSE(launches_kernel("cudaMemcpyAsync"));
  CHECK(waits_for_device("cudaStreamSynchronize"));
  CHECK(waits_for_device("cuCtxSynchronize"));
  CHECK_FALSE(waits_for_device("cudaStreamSynchronizeLater"));
}

TEST_CASE("routines of BLAS are told from those of LAPACK") {
  REQUIRE(fortran_routine("gemm") != nullptr);
  CHECK(fortran_routine("gemm")->blas);
  CHECK_FALSE(fortran_routine("getrf")->blas);
  CHECK(fortran_routine("gesv") == nullptr);
}
