#include "report/compiled/generated_code.h"

#include <catch2/catch.hpp>

#include "tracer/trace/trace_meta_json.h"

using optrace::GeneratedCode;
using optrace::trace_meta_of;
using Json = nlohmann::json;

TEST_CASE("generated code has the names of its kernels and the lines that it comes from",
          "[generated_code]") {
  const GeneratedCode code(trace_meta_of(Json::parse(R"({"generated_code": [{
      "file": "/generated/c.py",
      "kernels": [{"name": "cpp_fused_add_0", "library": "/generated/k.so",
                   "source": {"file": "/generated/k.cpp", "line": 3}}],
      "calls": [{"line": 9, "origin": {"file": "/x.py", "line": 3}}, {"line": 12, "origin": {}},
                {"line": 15, "origin": {"file": "/x.py", "line": 4}}]}]})")));
  const GeneratedCode::Kernel* const kernel = code.kernel_of("/generated/k.so", "kernel");
  REQUIRE(kernel != nullptr);
  CHECK(kernel->name == "cpp_fused_add_0");
  CHECK(kernel->file == "/generated/k.cpp");
  CHECK(kernel->line == 3);
  CHECK(code.kernel_of("/generated/other.so", "kernel") == nullptr);
  CHECK(code.kernels_in("/generated/c.py").at("cpp_fused_add_0").file == "/generated/k.cpp");
  CHECK(code.has("/generated/c.py"));
  CHECK_FALSE(code.has("/x.py"));
  CHECK_FALSE(code.origin_of("/generated/c.py", 8));
  CHECK(code.origin_of("/generated/c.py", 9)->line == 3);
  CHECK(code.origin_of("/generated/c.py", 11)->file == "/x.py");
  CHECK_FALSE(code.origin_of("/generated/c.py", 12));
  CHECK(code.origin_of("/generated/c.py", 99)->line == 4);
  CHECK_FALSE(code.origin_of("/x.py", 9));
}

TEST_CASE("a library with a graph in C++ has kernels under their names", "[generated_code]") {
  const GeneratedCode code(trace_meta_of(Json::parse(R"({"generated_code": [
      {"file": "/cache/cabc.wrapper.cpp", "kernels": [
          {"name": "cpp_fused_add_0", "source": {"file": "/cache/cabd.kernel.cpp", "line": 4},
           "origins": [{"op": "aten::add.Tensor"}]},
          {"name": "cpp_fused_mul_1", "source": {"file": "/cache/cabd.kernel.cpp", "line": 9}}]},
      {"file": "/cache/cabe.py", "kernels": [{"name": "cpp_fused_sub_0", "library": "/cache/k.so",
                                              "source": {"file": "/cache/k.cpp", "line": 5}}]}]})")));
  // A package is unpacked elsewhere.
  const GeneratedCode::Kernel* const add = code.kernel_of("/x/cabc.wrapper.so", "cpp_fused_add_0");
  REQUIRE(add != nullptr);
  CHECK(add->line == 4);
  REQUIRE(add->origins.size() == 1);
  CHECK(add->origins.front().op == "aten::add.Tensor");
  const GeneratedCode::Kernel* const mul = code.kernel_of("/x/cabc.wrapper.so", "cpp_fused_mul_1");
  REQUIRE(mul != nullptr);
  CHECK(mul->line == 9);
  CHECK(mul->origins.empty());
  CHECK(code.kernel_of("/x/cabc.wrapper.so", "run_impl") == nullptr);
  CHECK(code.kernel_of("/x/other.so", "cpp_fused_add_0") == nullptr);
  REQUIRE(code.kernel_of("/cache/k.so", "cpp_fused_sub_0") != nullptr);
  CHECK(code.kernel_of("/cache/k.so", "kernel_py") == nullptr);
}

TEST_CASE("generated code of a hostile trace is skipped", "[generated_code]") {
  for (const char* const text :
       {"{}", R"({"generated_code": 3})", R"({"generated_code": [1, null, "x", [1]]})",
        R"({"generated_code": [{"file": 3, "kernels": {"a": 1}, "calls": [{"line": -1}, 4]}]})",
        R"({"generated_code": [{"kernels": [{"library": "/k.so"}], "calls": [{"origin": 7}]}]})"}) {
    const GeneratedCode code(trace_meta_of(Json::parse(text)));
    CHECK(code.kernel_of("/k.so", "kernel") == nullptr);
    CHECK_FALSE(code.origin_of("", 0));
  }
}
