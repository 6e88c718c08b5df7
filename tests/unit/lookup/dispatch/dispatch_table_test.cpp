#include "lookup/dispatch/dispatch_table.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "pytorch/names/dispatch_keys.h"

using namespace optrace;

namespace {

Registration kernel(std::string_view key, std::string_view function = "_Z1fv") {
  return {RegistrationKind::kernel, "aten::f", key, function, {"f.cpp", 1}};
}
Registration for_all_ops(std::string_view key) {
  return {RegistrationKind::fallback, "_", key, "_Z8fallbackv", {"fallback.cpp", 1}};
}

using enum DispatchReason;

}  // namespace

TEST_CASE("a composite op has its kernel for backends, autograd and functionalization") {
  const DispatchTable table({kernel("CompositeImplicitAutograd")}, {});
  for (const char* key : {"Undefined", "CPU", "CUDA", "Meta", "SparseCPU", "SparseCsrCUDA",
                          "QuantizedCPU", "MkldnnCPU", "NestedTensorCPU", "AutogradCPU",
                          "AutogradOther", "AutogradNestedTensor", "Functionalize"}) {
    INFO(key);
    CHECK(table.entry(key).reason == implicit_autograd);
  }
  for (const char* key : {"Tracer", "AutocastCPU", "ADInplaceOrView", "FuncTorchBatched", "Python",
                          "BackendSelect", "Named"}) {
    INFO(key);
    CHECK(table.entry(key).reason == missing);
  }
}

TEST_CASE("a backend's own kernel keeps the composite one from its autograd key") {
  const DispatchTable table(
      {kernel("CompositeImplicitAutograd"), kernel("CPU", "_Z3cpuv"), kernel("SparseCUDA")}, {});
  CHECK(table.entry("CPU").reason == direct);
  CHECK(table.entry("CPU").registration->function == "_Z3cpuv");
  CHECK(table.entry("CUDA").reason == implicit_autograd);
  CHECK(table.entry("AutogradCPU").reason == missing);
  CHECK(table.entry("AutogradCUDA").reason == implicit_autograd);
  // SparseCUDA has a kernel, so the one for AutogradOther is ambiguous.
  CHECK(table.entry("AutogradOther").reason == ambiguous_other);
  CHECK_FALSE(table.entry("AutogradOther").registration);
}

TEST_CASE("explicit composites are for backends only, and need an autograd kernel") {
  const DispatchTable table({kernel("CompositeExplicitAutograd"), kernel("Autograd", "_Z2agv")},
                            {});
  CHECK(table.entry("CPU").reason == explicit_autograd);
  CHECK(table.entry("SparseXLA").reason == explicit_autograd);
  CHECK(table.entry("NestedTensorCPU").reason == missing);
  CHECK(table.entry("Functionalize").reason == missing);
  CHECK(table.entry("AutogradCPU").reason == DispatchReason::autograd);
  CHECK(table.entry("AutogradOther").registration->function == "_Z2agv");
}

TEST_CASE("non-functional composites spare sparse tensors, XLA and Lazy") {
  const DispatchTable table({kernel("CompositeExplicitAutogradNonFunctional")}, {});
  CHECK(table.entry("CPU").reason == explicit_non_functional);
  CHECK(table.entry("SparseCsrCPU").reason == explicit_non_functional);
  CHECK(table.entry("SparseCPU").reason == missing);
  CHECK(table.entry("XLA").reason == missing);
  CHECK(table.entry("Lazy").reason == missing);
}

TEST_CASE("nested tensors and vmap have alias keys of their own") {
  const DispatchTable table({kernel("CompositeImplicitAutograd"),
                             kernel("CompositeImplicitAutogradNestedTensor", "_Z2ntv"),
                             kernel("FuncTorchBatchedDecomposition", "_Z2bdv")},
                            {for_all_ops("BatchedNestedTensor")});
  CHECK(table.entry("NestedTensorCUDA").reason == nested_tensor);
  CHECK(table.entry("AutogradNestedTensor").reason == nested_tensor);
  CHECK(table.entry("CPU").reason == implicit_autograd);
  CHECK(table.entry("FuncTorchBatched").reason == batched_decomposition);
  CHECK(table.entry("BatchedNestedTensor").reason == DispatchReason::fallback);
}

TEST_CASE("fallbacks come last, and some fall through") {
  Registration through = for_all_ops("ADInplaceOrView");
  through.kind = RegistrationKind::fallthrough;
  through.function = {};
  const DispatchTable table({kernel("CPU")}, {through, for_all_ops("Meta"), for_all_ops("CPU")});
  CHECK(table.entry("ADInplaceOrView").reason == DispatchReason::fallback);
  CHECK(table.entry("ADInplaceOrView").falls_through());
  CHECK(table.entry("Meta").reason == DispatchReason::fallback);
  CHECK_FALSE(table.entry("Meta").falls_through());
  CHECK(table.entry("CPU").reason == direct);
}

TEST_CASE("an op's catch-all kernel is a composite one; its declaration is kept") {
  Registration definition = kernel("", "_Z1fv");
  definition.kind = RegistrationKind::definition;
  const DispatchTable table({definition}, {});
  CHECK(table.entry("CPU").reason == implicit_autograd);
  REQUIRE(table.declaration());
  definition.function = {};
  CHECK(DispatchTable({definition}, {}).entry("CPU").reason == missing);
}

TEST_CASE("the table has every runtime key once, in the dispatcher's order, and unknown ones") {
  const DispatchTable table({kernel("CPU"), kernel("BrandNewKey"), kernel("Autograd")}, {});
  const auto entries = table.entries();
  REQUIRE(entries.size() == runtime_dispatch_keys().size() + 1);
  CHECK(entries.front().key == "Undefined");
  CHECK(entries[1].key == "CPU");
  CHECK(entries.back().key == "BrandNewKey");
  CHECK(entries.back().reason == direct);
}
