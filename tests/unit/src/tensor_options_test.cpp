#include "src/options/tensor_options.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"

using namespace optrace;
using Catch::Matchers::Contains;

TEST_CASE("a shape is sizes with x between them, for a named tensor or the first",
          "[tensor_options]") {
  CHECK(parse_shape("2x3x4").sizes == std::vector<std::int64_t>{2, 3, 4});
  CHECK(parse_shape("2x3x4").tensor.empty());
  CHECK(parse_shape("7").sizes == std::vector<std::int64_t>{7});
  CHECK(parse_shape("0x3").sizes == std::vector<std::int64_t>{0, 3});
  CHECK(parse_shape("weight=8x3").tensor == "weight");
  CHECK(parse_shape("weight=8x3").sizes == std::vector<std::int64_t>{8, 3});
  CHECK(parse_shape("scalar").sizes.empty());
}

TEST_CASE("what is no shape is refused with how to write one", "[tensor_options]") {
  for (const std::string text : {"", "x", "2x", "x2", "2xx3", "-1", "+1", "2,3", "(2, 3)", "2.5",
                                 "=2x3", "1w=2", "w=", "2 x3", "99999999999999999999",
                                 "1000000000x1000000000", "a=b=2", "0x10000000000000"}) {
    INFO(text);
    try {
      parse_shape(text);
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
      CHECK_THAT(error.what(), Contains("--shape: '" + text + "'"));
      CHECK_THAT(error.remedy(), Contains("4x3x8x8"));
    }
  }
  std::string many = "1";
  for (int i = 0; i < 64; ++i) many += "x1";
  CHECK_THROWS_AS(parse_shape(many), Error);
}

TEST_CASE("a dtype is a name, for a named tensor or all", "[tensor_options]") {
  CHECK(parse_dtype("float16").dtype == "float16");
  CHECK(parse_dtype("float16").tensor.empty());
  CHECK(parse_dtype("torch.float16").dtype == "float16");
  CHECK(parse_dtype("index=int32").tensor == "index");
  CHECK(parse_dtype("index=int32").dtype == "int32");
  for (const std::string text : {"", "=", "x=", "=int32", "a b", "__import__('os')", "torch."}) {
    INFO(text);
    try {
      parse_dtype(text);
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
      CHECK_THAT(error.what(), Contains("--dtype: '" + text + "'"));
    }
  }
}

TEST_CASE("no option's text breaks the reader of shapes and dtypes", "[tensor_options]") {
  std::mt19937 random(11);
  const std::string letters = "0123456789xX=w-+. scalrtoh.";
  for (unsigned turn = 0; turn < 20000; ++turn) {
    std::string text;
    for (auto size = random() % 30; size > 0; --size) text += letters[random() % letters.size()];
    try {
      const TensorShape shape = parse_shape(text);
      CHECK(shape.sizes.size() <= 64);
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
    }
    try {
      const TensorType type = parse_dtype(text);
      CHECK_FALSE(type.dtype.empty());
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
    }
  }
}
