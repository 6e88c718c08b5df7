#include "tracer/collect/op_selection.h"

#include <cstdint>

#include <catch2/catch.hpp>

using namespace optrace;

TEST_CASE("without a selection, everything is included", "[op_selection]") {
  const OpSelection all({});
  CHECK(all.everything());
  CHECK(all.every_op());
  CHECK(all.every_module());
  CHECK(all.includes_op("add_Tensor", "aten::add.Tensor"));
  CHECK(all.includes_op("", ""));
  CHECK(all.includes_call(0));
  CHECK_FALSE(all.is_complete(1'000'000));
}

TEST_CASE("an op is selected by each of its names", "[op_selection]") {
  const OpSelection add({.ops = "aten::add"});
  CHECK_FALSE(add.everything());
  CHECK_FALSE(add.every_op());
  CHECK(add.includes_op("add_Tensor", "aten::add.Tensor"));  // All overloads.
  CHECK(add.includes_op("add", ""));                         // Without a record, an op of aten.
  CHECK_FALSE(add.includes_op("add_Tensor", "mine::add.Tensor"));
  CHECK_FALSE(add.includes_op("addmm", "aten::addmm"));
  CHECK_FALSE(add.includes_op("", "aten::add.Tensor"));  // The name is not known.
  CHECK(OpSelection({.ops = "mine::*"}).includes_op("f", "mine::f"));
}

TEST_CASE("calls are selected by their number", "[op_selection]") {
  const OpSelection some({.skip = 2, .count = 3});
  CHECK(some.includes_op("add", "aten::add"));
  CHECK_FALSE(some.every_op());
  for (const std::uint32_t number : {2U, 3U, 4U}) CHECK(some.includes_call(number));
  for (const std::uint32_t number : {0U, 1U, 5U}) CHECK_FALSE(some.includes_call(number));
  CHECK_FALSE(some.is_complete(5));
  CHECK(some.is_complete(6));
  CHECK(OpSelection({.skip = 2}).includes_call(1'000'000));
}

TEST_CASE("a module is itself and what is in it", "[op_selection]") {
  const OpSelection nn({.from_module = "torch.nn"});
  CHECK_FALSE(nn.every_module());
  CHECK(nn.every_op());
  CHECK(nn.includes_python("torch.nn"));
  CHECK(nn.includes_python("torch.nn.Linear.forward"));
  CHECK_FALSE(nn.includes_python("torch.nnx.f"));
  CHECK_FALSE(nn.includes_python("torch"));
}
