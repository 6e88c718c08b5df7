#include "gpu/build/emulated_device_build.h"

#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/files/private_folder.h"
#include "tests/unit/environment_variable.h"
#include "tests/unit/small_library.h"

using namespace optrace;
using namespace optrace::test;

namespace {

/// A site-packages folder with a torch that has no libraries, and no CUDA anywhere else.
class FakePackages {
 public:
  FakePackages()
      : prebuilt_("OPTRACE_PREBUILT", "0"),
        home_("CUDA_HOME", (folder_.path() / "nowhere").c_str()),
        cache_("OPTRACE_CACHE_DIR", (folder_.path() / "cache").c_str()) {
    std::filesystem::create_directories(torch() / "lib");
    std::filesystem::create_directories(packages() / "torch-9.9.dist-info");
  }

  std::filesystem::path packages() const { return folder_.path() / "site-packages"; }
  std::filesystem::path torch() const { return packages() / "torch"; }

  void version(const std::string& text) const { write_bytes(torch() / "version.py", text); }
  void requires_packages(const std::string& lines) const {
    write_bytes(packages() / "torch-9.9.dist-info" / "METADATA", lines);
  }
  void header(const std::string& name, const std::string& text) const {
    const auto folder = packages() / "nvidia" / "cuda_runtime" / "include";
    std::filesystem::create_directories(folder);
    write_bytes(folder / name, text);
  }

  std::string missing() {
    const BuiltLibraries emulation = find_or_build_emulated_device(
        torch(), [this](std::string_view text) { progress_.emplace_back(text); });
    CHECK(emulation.libraries.empty());
    return emulation.missing;
  }
  const std::vector<std::string>& progress() const { return progress_; }

 private:
  PrivateFolder folder_;
  EnvironmentVariable prebuilt_;
  EnvironmentVariable home_;
  EnvironmentVariable cache_;
  std::vector<std::string> progress_;
};

}  // namespace

TEST_CASE("a torch without CUDA has no emulated device, and is told so") {
  FakePackages packages;
  CHECK_THAT(packages.missing(), Catch::Contains("has no version.py"));
  for (const char* const version :
       {"debug = False\ncuda: Optional[str] = None\n", "cuda = None\ncuda_arch = 'x'\n", ""}) {
    packages.version(version);
    CHECK_THAT(packages.missing(), Catch::Contains("is built without CUDA") &&
                                       Catch::Contains(packages.torch().string()));
  }
  CHECK(packages.progress().empty());
}

TEST_CASE("without headers the wheels to install are named") {
  FakePackages packages;
  packages.version("cuda: Optional[str] = '12.4'\n");
  CHECK_THAT(packages.missing(),
             Catch::Contains("cuda.h") && Catch::Contains("'nvidia-cuda-runtime-cu12'"));
  packages.requires_packages(
      "Requires-Dist: nvidia-cuda-runtime-cu12 (==12.4.127) ; platform_system == \"Linux\"\n");
  CHECK_THAT(packages.missing(),
             Catch::Contains("pip install 'nvidia-cuda-runtime-cu12==12.4.127'"));
  packages.requires_packages("Requires-Dist: cuda-toolkit[cudart]==13.2.2; platform_system\n");
  CHECK_THAT(packages.missing(), Catch::Contains("pip install 'cuda-toolkit[cudart]==13.2.2'"));
  CHECK(packages.progress().empty());
}

TEST_CASE("headers of another CUDA are refused") {
  FakePackages packages;
  packages.version("cuda: Optional[str] = '12.4'\n");
  for (const char* const name : {"cuda.h", "cuda_runtime_api.h"})
    packages.header(name, "#define CUDART_VERSION  13020\n");
  // The headers that the emulated device's own sources include.
  for (const char* const name :
       {"cudnn.h", "cublas_v2.h", "cublasLt.h", "cusolverDn.h", "cusparse.h", "cusparseLt.h",
        "cufft.h", "curand.h", "nccl.h", "cupti.h", "cufile.h", "nvshmem_host.h"})
    packages.header(name, "");
  CHECK_THAT(packages.missing(),
             Catch::Contains("built with CUDA 12.4") && Catch::Contains("are CUDA 13's"));
}

TEST_CASE("without a compiler it says what to install") {
  FakePackages packages;
  packages.version("cuda: Optional[str] = '12.4'\n");
  const EnvironmentVariable path("PATH", packages.torch().string());
  const EnvironmentVariable compiler("CXX", "");
  CHECK_THAT(packages.missing(), Catch::Contains("apt install g++"));
}

TEST_CASE("a failing build says where it failed and leaves nothing in the cache") {
  FakePackages packages;
  packages.version("cuda: Optional[str] = '12.4'\n");
  for (const char* const name : {"cuda.h", "cuda_runtime_api.h"})
    packages.header(name, "#define CUDART_VERSION  12040\n");
  const auto compiler = packages.packages() / "compiler";
  write_bytes(compiler, "#!/bin/sh\necho 'a.h:1: error: no such thing' >&2\nexit 1\n");
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  const EnvironmentVariable variable("CXX", compiler.string());
  CHECK_THAT(packages.missing(), Catch::Contains("error: no such thing") &&
                                     Catch::Contains(compiler.string()) && Catch::Contains("$CXX"));
  CHECK(packages.progress() ==
        std::vector<std::string>{"compiling the emulated CUDA device for CUDA 12.4, once"});
  CHECK(
      std::filesystem::is_empty(packages.packages().parent_path() / "cache" / "emulated-devices"));
}
