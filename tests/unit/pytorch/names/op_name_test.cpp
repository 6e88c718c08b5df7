#include "pytorch/names/op_name.h"

#include <catch2/catch.hpp>

using namespace optrace;

TEST_CASE("an op's name has a namespace, a base and an overload") {
  const OpName name = split_op_name("aten::add_.Tensor");
  CHECK(name.space == "aten");
  CHECK(name.base == "add_");
  CHECK(name.overload == "Tensor");
  CHECK(name.packet() == "aten::add_");
  CHECK(name.full() == "aten::add_.Tensor");
  CHECK(split_op_name("conv2d").base == "conv2d");
  CHECK(split_op_name("conv2d").space.empty());
}

TEST_CASE("at::_ops has an unambiguous name for each overload") {
  CHECK(unambiguous_name("aten::add.Tensor") == "add_Tensor");
  CHECK(unambiguous_name("aten::conv2d") == "conv2d");
  CHECK(unambiguous_name("add.out") == "add_out");
}
