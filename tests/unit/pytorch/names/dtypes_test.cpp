#include "pytorch/names/dtypes.h"

#include <catch2/catch.hpp>

#include "pytorch/names/devices.h"

using namespace optrace;

TEST_CASE("the size of an element is that of its dtype") {
  CHECK(element_bytes("float32") == 4);
  CHECK(element_bytes("complex128") == 16);
  CHECK(element_bytes("bool") == 1);
  CHECK(element_bytes("float8_e8m0fnu") == 1);
}

TEST_CASE("only dtypes of real numbers are floating point") {
  CHECK(is_floating_point("bfloat16"));
  CHECK(is_floating_point("float8_e5m2"));
  CHECK_FALSE(is_floating_point("complex64"));
  CHECK_FALSE(is_floating_point("int64"));
}

TEST_CASE("a dtype has the name that PyTorch prints") {
  CHECK(is_dtype("quint8"));
  CHECK_FALSE(is_dtype("half"));
}

TEST_CASE("devices have a type and perhaps an index") {
  CHECK(is_host("cpu"));
  CHECK_FALSE(is_host("cuda:0"));
  CHECK(is_cuda("cuda"));
  CHECK(is_cuda("cuda:1"));
  CHECK_FALSE(is_cuda("meta"));
}
