#include "pytorch/source/cpu_capability.h"

#include <catch2/catch.hpp>

using namespace optrace;

TEST_CASE("a copy's name tells its CPU capability") {
  CHECK(capability_of_copy("aten/src/ATen/native/cpu/add_kernel.cpp.AVX2.cpp") == "AVX2");
  CHECK(capability_of_copy("UfuncCPUKernel_add.cpp.DEFAULT.cpp") == "DEFAULT");
  CHECK_FALSE(capability_of_copy("add_kernel.cpp"));
  CHECK_FALSE(capability_of_copy("add.AVX.cpp"));
  CHECK_FALSE(capability_of_copy(""));
}

TEST_CASE("the name of a copy contains that of its source file") {
  CHECK(without_capability("add_kernel.cpp.SVE256.cpp") == "add_kernel.cpp");
  CHECK(without_capability("add_kernel.cpp") == "add_kernel.cpp");
}

TEST_CASE("the baseline is no namespace to unify") {
  CHECK(is_cpu_capability("AVX512"));
  CHECK(is_cpu_capability("SVE128"));
  CHECK(is_cpu_capability("CPU_CAPABILITY"));
  CHECK_FALSE(is_cpu_capability("DEFAULT"));
  CHECK_FALSE(is_cpu_capability("AMX"));
}
