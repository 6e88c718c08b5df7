#include "gpu/build/dry_run.h"

#include <catch2/catch.hpp>

#include "platform/files/private_folder.h"
#include "tests/unit/small_library.h"

using namespace optrace;

TEST_CASE("the emulated libraries report the versions that torch brings") {
  const PrivateFolder folder;
  for (const char* const name :
       {"torch", "nvidia_cudnn_cu12-9.1.0.70.dist-info", "nvidia_nccl_cu12-2.21.5.dist-info",
        "nvidia_cuda_runtime_cu12-12.4.127.dist-info", "nvidia_cublas-13.4.1.3.dist-info",
        "nvidia_cufft-12.2.0.57.data", "nvidia_-.dist-info", "nvidia_.dist-info",
        "cudnn-8.0.dist-info"})
    std::filesystem::create_directory(folder.path() / name);
  CHECK(reported_versions(folder.path() / "torch") == "cublas=13.4.1.3,cudnn=9.1.0.70,nccl=2.21.5");
  test::write_bytes(folder.path() / "torch/version.py", "cuda: Optional[str] = '12.4'\n");
  CHECK(reported_versions(folder.path() / "torch") ==
        "cuda=12.4,cublas=13.4.1.3,cudnn=9.1.0.70,nccl=2.21.5");
}
