#include "pytorch/functions/runtime_libraries.h"

#include <catch2/catch.hpp>

using namespace optrace;

TEST_CASE("the interpreter and the system's libraries are hidden, but for libm") {
  CHECK(is_hidden_library("libpython3.12.so.1.0"));
  CHECK(is_hidden_library("libgomp-a34b3233.so.1"));
  CHECK_FALSE(is_hidden_library("libm.so.6"));
  CHECK_FALSE(is_hidden_library("libtorch_python.so"));
}

TEST_CASE("calls of OpenMP are counted, those of the interpreter are not") {
  CHECK(has_counted_calls("/x/torch/lib/libgomp-a34b3233.so.1"));
  CHECK(has_counted_calls("/x/torch/lib/libtorch_cpu.so"));
  CHECK_FALSE(has_counted_calls("/usr/bin/python3.11"));
  CHECK_FALSE(has_counted_calls("libstdc++.so.6"));
  CHECK_FALSE(has_counted_calls("/lib64/libm.so.6"));
}
