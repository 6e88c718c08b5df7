#include "pytorch/libraries/backend_name.h"

#include <catch2/catch.hpp>

using optrace::BackendName;

TEST_CASE("a backend is a word of a name", "[why_not]") {
  const BackendName cudnn("cuDNN");
  CHECK(cudnn.text() == "cudnn");
  for (const char* name : {"cudnn_convolution", "at::Context::userEnabledCuDNN",
                           "cudnnBackendExecute", "CudnnTranspose", "setCuDNNEnabled", "cuDNN"})
    CHECK(cudnn.is_in(name));
  for (const char* name : {"", "cudn", "xcudnn", "cudnns", "cublas"})
    CHECK_FALSE(cudnn.is_in(name));
  CHECK_FALSE(BackendName("nnpack").is_in("use_xnnpack"));
  CHECK_FALSE(BackendName("mkl").is_in("use_mkldnn"));
  CHECK_FALSE(BackendName("mkl").is_in("hasMKLDNN"));
  CHECK(BackendName("flash").is_in("SDPBackend::flash_attention"));
}

TEST_CASE("oneDNN has several spellings", "[why_not]") {
  for (const char* spelling : {"mkldnn", "oneDNN", "dnnl"})
    for (const char* name : {"use_mkldnn", "ideep::convolution_forward", "oneDNN"})
      CHECK(BackendName(spelling).is_in(name));
}
