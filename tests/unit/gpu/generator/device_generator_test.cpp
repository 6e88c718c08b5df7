#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>
#include <dlfcn.h>

#include "gpu/generator/call_rules.h"
#include "gpu/libraries/device_families.h"
#include "platform/files/installation.h"
#include "platform/files/private_folder.h"
#include "platform/process/child_process.h"
#include "tests/unit/small_library.h"

using namespace optrace;
using namespace optrace::test;

namespace {

Parameter scalar(const std::string& name, ValueKind kind = ValueKind::integer) {
  return {.name = name, .type = "int", .kind = kind};
}

Parameter pointer(const std::string& name, ValueKind to, bool constant = false) {
  return {.name = name,
          .type = "T *",
          .kind = ValueKind::pointer,
          .pointee = "T",
          .pointee_kind = to,
          .pointee_constant = constant,
          .pointee_complete = true};
}

CallDecision decision(std::string_view family, const std::string& name,
                      const std::vector<Parameter>& parameters, const std::string& result = "") {
  const DeviceFamily& of = *device_family(family);
  return decide(of, {name, result.empty() ? std::string(of.status) : result, parameters});
}

}  // namespace

TEST_CASE("functions and libraries belong to families") {
  CHECK(family_of_function("cudaMalloc")->name == "cudart");
  CHECK(family_of_function("__cudaRegisterFunction")->name == "cudart");
  CHECK(family_of_function("cuMemAlloc_v2")->name == "cuda");
  CHECK(family_of_function("cuFileRead")->name == "cufile");
  CHECK(family_of_function("cublasLtMatmul")->name == "cublaslt");
  CHECK(family_of_function("cublasSgemm_v2")->name == "cublas");
  CHECK(family_of_function("cusparseLtInit")->name == "cusparselt");
  CHECK(family_of_function("nvshmemx_mc_ptr")->name == "nvshmem");
  // A function of LAPACK, and other names without a family.
  CHECK(family_of_function("cungqr_") == nullptr);
  CHECK(family_of_function("custom") == nullptr);
  CHECK(family_of_function("cu") == nullptr);
  CHECK(family_of_function("nvrtcCompileProgram") == nullptr);
  CHECK(family_of_library("libcublas.so.12")->name == "cublas");
  CHECK(family_of_library("libcublasLt.so.12")->name == "cublaslt");
  CHECK(family_of_library("libcuda.so.1")->name == "cuda");
  CHECK(family_of_library("libnvrtc.so.12") == nullptr);
  CHECK(family_of_library("libc.so.6") == nullptr);
}

TEST_CASE("a rule holds where the name and the prototype fit") {
  const Parameter handle = pointer("handle", ValueKind::other);
  SECTION("handles") {
    const auto create =
        decision("curand", "curandCreateGenerator", {pointer("g", ValueKind::pointer)});
    CHECK(create.behaviour == CallBehaviour::create);
    CHECK(create.filled == std::vector<std::size_t>{0});
    CHECK(decision("curand", "curandDestroyGenerator", {handle}).behaviour ==
          CallBehaviour::destroy);
    // A function that fills two handles fits no rule.
    CHECK(decision("cudnn", "cudnnCreateBoth",
                   {pointer("a", ValueKind::pointer), pointer("b", ValueKind::pointer)})
              .behaviour == CallBehaviour::unimplemented);
  }
  SECTION("sizes") {
    const auto size = decision("cusolver", "cusolverDnXgetrf_bufferSize",
                               {handle, scalar("m"), pointer("A", ValueKind::other, true),
                                pointer("workspaceInBytesOnDevice", ValueKind::integer),
                                pointer("workspaceInBytesOnHost", ValueKind::integer)});
    CHECK(size.behaviour == CallBehaviour::size);
    CHECK(size.filled == std::vector<std::size_t>{3, 4});
    CHECK(decision("cusolver", "cusolverDnXgetrf_bufferSize", {handle, scalar("m")}).behaviour ==
          CallBehaviour::unimplemented);
  }
  SECTION("results that the host may read") {
    const auto dot = decision("cublas", "cublasSdot_v2",
                              {handle, scalar("n"), pointer("x", ValueKind::real, true),
                               pointer("result", ValueKind::real)});
    CHECK(dot.behaviour == CallBehaviour::compute);
    CHECK(dot.filled == std::vector<std::size_t>{3});
  }
  SECTION("whatever fits no row is unimplemented") {
    CHECK(
        decision("cublas", "cublasGetVector", {handle, pointer("y", ValueKind::other)}).behaviour ==
        CallBehaviour::unimplemented);
    CHECK(decision("cublas", "cublasSrotg_v2", {handle, pointer("a", ValueKind::real)}).behaviour ==
          CallBehaviour::unimplemented);
    CHECK(decision("cuda", "cuMemAlloc_v2", {pointer("p", ValueKind::integer)}).behaviour ==
          CallBehaviour::unimplemented);
    // The row of another family, and another result type.
    CHECK(decision("nccl", "curandCreateGenerator", {pointer("g", ValueKind::pointer)}).behaviour ==
          CallBehaviour::unimplemented);
    CHECK(decision("curand", "curandCreateGenerator", {pointer("g", ValueKind::pointer)}, "int")
              .behaviour == CallBehaviour::unimplemented);
  }
  SECTION("expressions") {
    CHECK(decision("cudnn", "cudnnGetMaxDeviceVersion", {}, "size_t").value ==
          "CUDNN_MAX_DEVICE_VERSION");
    CHECK(decision("cublas", "cublasGetMathMode", {handle, pointer("mode", ValueKind::enumeration)})
              .value == "emulated::setting(a0, &cublasContext::math_mode, a1)");
    CHECK(decision("cublas", "cublasGetMathMode", {}, "void").behaviour ==
          CallBehaviour::unimplemented);
  }
}

// Uses a header like cuRAND's, the functions generated from it, and a device that notes its calls.
TEST_CASE("generated functions do as their rules say") {
  const PrivateFolder folder;
  write_bytes(folder.path() / "curand.h", R"(
#pragma once
typedef enum { CURAND_STATUS_SUCCESS = 0, CURAND_STATUS_INTERNAL_ERROR = 999 } curandStatus_t;
typedef enum { CURAND_DEFAULT = 100, CURAND_XORWOW = 101, CURAND_SAME = 101 } curandRngType_t;
typedef struct curandGenerator_st* curandGenerator_t;
extern "C" {
curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t rng_type);
curandStatus_t curandDestroyGenerator(curandGenerator_t generator);
curandStatus_t curandSetStream(curandGenerator_t generator, void* stream);
curandStatus_t curandGenerate(curandGenerator_t generator, unsigned* outputPtr, curandRngType_t kind,
                              unsigned long num, double scale, void (*callback)(int[3]));
curandStatus_t curandGetVersion(int* version);
#define curandGetProperty curandGetProperty_v2
curandStatus_t curandGetProperty(int type, int* value);
}
static inline curandStatus_t curandInline() { return CURAND_STATUS_SUCCESS; }
curandStatus_t curandMangled(int);
)");
  write_bytes(folder.path() / "functions", "curandGenerate\ncurandUndeclared\n");
  const auto generated = folder.path() / "generated.cpp";
  ChildProcess::Options options;
  options.arguments = {(library_folder() / "optrace-device-generator").string(),
                       "define",
                       "curand",
                       (folder.path() / "functions").string(),
                       generated.string(),
                       "-isystem",
                       folder.path().string()};
  REQUIRE(ChildProcess(options).wait() == 0);
  const std::string source = R"(
namespace optrace::emulated {
static std::string noted;
void unimplemented(const char* function) { noted += std::string("unimplemented ") + function; }
bool recording() { return true; }
void library_wrote(const void* pointer) { noted += pointer == nullptr ? "" : "wrote "; }
Call::Call(const char* function, const char* kind) {
  noted += std::string(kind) + " " + function + " ";
  json_.open('{');
}
void Call::record() {
  json_.close('}');
  noted += json_.text();
}
}
extern "C" curandStatus_t curandGetVersion(int* version) { *version = 7; return CURAND_STATUS_SUCCESS; }
extern "C" const char* take() {
  static std::string last;
  last.swap(optrace::emulated::noted);
  optrace::emulated::noted.clear();
  return last.c_str();
}
)";
  // In a second file, since a hand-written function replaces the generated (weak) one.
  write_bytes(folder.path() / "device.cpp",
              "#include <curand.h>\n"
              "#include \"gpu/emulated/device/device.h\"\n" +
                  source);
  const auto library =
      build_library(folder.path(), "all.cpp", "",
                    {"-std=c++17", "-Wall", "-Wextra", "-Werror", "-isystem",
                     folder.path().string(), "-I", (data_folder() / "emulated_device").string(),
                     generated.string(), (folder.path() / "device.cpp").string()});
  void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  INFO(::dlerror());
  REQUIRE(opened != nullptr);
  const auto function = [&]<typename F>(const char* name, F*) {
    void* const found = ::dlsym(opened, name);
    INFO(name);
    REQUIRE(found != nullptr);
    return reinterpret_cast<F*>(found);
  };
  using Simple = int(void*);
  const auto take = function("take", static_cast<const char* (*)()>(nullptr));
  const auto destroy = function("curandDestroyGenerator", static_cast<Simple*>(nullptr));
  const auto create = function("curandCreateGenerator", static_cast<int (*)(void**, int)>(nullptr));
  const auto generate =
      function("curandGenerate",
               static_cast<int (*)(void*, unsigned*, int, unsigned long, double, void*)>(nullptr));

  void* first = nullptr;
  void* second = nullptr;
  CHECK(create(&first, 100) == 0);
  CHECK(create(&second, 100) == 0);
  CHECK(first != nullptr);
  CHECK(first != second);
  CHECK(create(nullptr, 100) == 999);
  CHECK(destroy(first) == 0);
  CHECK(destroy(first) == 999);  // The handle is no longer valid.
  CHECK(destroy(static_cast<void*>(&second)) == 999);
  CHECK(std::string(take()).empty());

  unsigned output = 5;
  CHECK(generate(second, &output, 101, 64, 0.5, nullptr) == 0);
  CHECK(std::string(take()) ==
        R"(wrote library curandGenerate {"kind":"CURAND_XORWOW","num":64,"scale":0.5})");
  CHECK(generate(second, &output, 77, 64, 0.5, nullptr) == 0);
  CHECK(std::string(take()) == R"(wrote library curandGenerate {"kind":77,"num":64,"scale":0.5})");
  CHECK(output == 5);
  CHECK(destroy(second) == 0);

  int version = 0;
  CHECK(function("curandGetVersion", static_cast<Simple*>(nullptr))(&version) == 0);
  CHECK(version == 7);
  for (const char* const name : {"curandGetProperty_v2", "curandUndeclared"}) {
    CHECK(function(name, static_cast<Simple*>(nullptr))(nullptr) == 999);
    CHECK(std::string(take()) == std::string("unimplemented ") + name);
  }
  CHECK(::dlsym(opened, "curandInline") == nullptr);
  CHECK(::dlclose(opened) == 0);
}
