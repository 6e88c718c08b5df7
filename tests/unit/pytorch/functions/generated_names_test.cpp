#include "pytorch/functions/generated_names.h"

#include <catch2/catch.hpp>

using namespace optrace;

TEST_CASE("torchgen's wrappers are known by their names") {
  CHECK(is_wrapper("at::(anonymous namespace)::(anonymous namespace)::wrapper_CPU__convolution"));
  CHECK(is_wrapper("wrapper_CPU_add_Tensor"));
  CHECK_FALSE(is_wrapper("at::native::wrapped_add"));
  CHECK_FALSE(is_wrapper("at::native::call_wrapper_of"));
}

TEST_CASE("torchgen's wrappers are known by their symbols") {
  CHECK(
      is_wrapper_symbol("_ZN2at12_GLOBAL__N_112_GLOBAL__N_120wrapper_Lazy__randomERKNS_6TensorE"));
  CHECK_FALSE(is_wrapper_symbol("_ZN2at6native20wrapper_Lazy__randomERKNS_6TensorE"));
  CHECK_FALSE(is_wrapper_symbol("_Z18nnapi_wrapper_loadv"));
}

TEST_CASE("a binding is named after what Python calls") {
  CHECK(bound_name("torch::autograd::THPVariable_conv2d") == "conv2d");
  CHECK(bound_name("_ZN5torch8autogradL19THPVariable___add__EP7_object") == "__add__EP7_object");
  CHECK(bound_name("torch::autograd::THPFunction_apply").empty());
}
