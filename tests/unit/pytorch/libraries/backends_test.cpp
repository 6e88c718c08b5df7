#include "pytorch/libraries/backends.h"

#include <catch2/catch.hpp>

using namespace optrace;

TEST_CASE("a backend is a library or a kind of implementation") {
  CHECK(is_backend("cuDNN"));
  CHECK(is_backend("mkldnn"));
  CHECK(is_backend("flash"));
  CHECK_FALSE(is_backend("cuda"));
  CHECK(is_of_cuda("NCCL"));
  CHECK_FALSE(is_of_cuda("mkl"));
}

TEST_CASE("functions belong to a backend by library or name") {
  CHECK(is_function_of("onednn", "dnnl_primitive_execute", "oneDNN"));
  CHECK_FALSE(is_function_of("onednn", "dnnl_memory_create", ""));
  CHECK(is_function_of("flash", "at::_flash_attention_forward", ""));
  CHECK(is_function_of("math", "at::_scaled_dot_product_attention_math", ""));
}

TEST_CASE("BLAS and LAPACK share the form of their functions' names") {
  CHECK(is_function_of("blas", "sgemm_", "BLAS/LAPACK"));
  CHECK(is_function_of("blas", "SGEMM", "BLAS/LAPACK"));
  CHECK_FALSE(is_function_of("lapack", "sgemm_", "BLAS/LAPACK"));
  CHECK(is_function_of("lapack", "sgetrf_", "BLAS/LAPACK"));
  CHECK(is_function_of("blas", "mkl_blas_sgemm", "MKL"));
}
