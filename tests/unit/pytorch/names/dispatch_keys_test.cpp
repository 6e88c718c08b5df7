#include "pytorch/names/dispatch_keys.h"

#include <algorithm>

#include <catch2/catch.hpp>

using namespace optrace;

TEST_CASE("a dispatch key consists of a functionality and perhaps a backend") {
  CHECK(parts_of_dispatch_key("SparseCPU").functionality == "Sparse");
  CHECK(parts_of_dispatch_key("SparseCPU").backend == "CPU");
  CHECK(parts_of_dispatch_key("CUDA").functionality == "Dense");
  CHECK(parts_of_dispatch_key("AutogradOther").functionality == "AutogradOther");
  CHECK(parts_of_dispatch_key("AutogradOther").backend.empty());
  CHECK(parts_of_dispatch_key("Unheard").functionality == "Unheard");
}

TEST_CASE("runtime keys are in the dispatcher's order") {
  const auto& keys = runtime_dispatch_keys();
  const auto at = [&](const char* key) { return std::ranges::find(keys, key) - keys.begin(); };
  CHECK(keys.front() == "Undefined");
  CHECK(at("CPU") < at("SparseCPU"));
  CHECK(at("SparseCPU") < at("AutogradCPU"));
  CHECK(at("AutogradCPU") < at("PythonDispatcher"));
}

TEST_CASE("some keys have Python functions as kernels, some are of sparse tensors") {
  CHECK(is_python_dispatch_key("PreDispatch"));
  CHECK_FALSE(is_python_dispatch_key("CPU"));
  CHECK(is_sparse_dispatch_key("SparseCsrCUDA"));
  CHECK_FALSE(is_sparse_dispatch_key("AutogradCPU"));
}
