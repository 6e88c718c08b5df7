#include "indexer/builders/on_demand.h"

#include <set>
#include <string>
#include <unordered_set>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

using Names = std::set<std::string>;

Names defined_of_three(const std::string& text) {
  return defined_names(text, std::unordered_set<std::string>{"relu", "add", "add_stub"});
}

}  // namespace

TEST_CASE("on demand: a function is defined where its body opens") {
  CHECK(defined_of_three("Tensor relu(const Tensor& self) {\n}") == Names{"relu"});
  CHECK(defined_of_three("Tensor A::add (int a,\n  B b = f()) const noexcept\n{}") == Names{"add"});
  CHECK(defined_of_three("Tensor relu(const Tensor& self);").empty());
  CHECK(defined_of_three("auto x = relu(self);\nif (add(a, b) == c) {}").empty());
  CHECK(defined_of_three("Tensor relu_(Tensor& self) {}\nTensor prelu(Tensor self) {}").empty());
}

TEST_CASE("on demand: macros define kernels too") {
  CHECK(defined_of_three("TORCH_IMPL_FUNC(add)(const Tensor& a) {}") == Names{"add"});
  CHECK(defined_of_three("REGISTER_DISPATCH(add_stub, &add_kernel)") == Names{"add_stub"});
  CHECK(defined_of_three("DECLARE_X(add_stub)").empty());
}

TEST_CASE("on demand: text that is cut or odd") {
  const std::string text =
      "TORCH_IMPL_FUNC(add)(Tensor a) {}\nTensor relu(int (*f)(int)) const {}\n";
  CHECK(defined_of_three(text) == Names{"add", "relu"});
  const std::size_t add_ends = text.find(")(");
  const std::size_t relu_opens = text.rfind('{');
  for (std::size_t size = 0; size < text.size(); ++size) {
    const Names found = defined_of_three(text.substr(0, size));
    CHECK(found.contains("add") == (size >= add_ends));
    CHECK(found.contains("relu") == (size > relu_opens));
  }
  CHECK(defined_of_three("relu" + std::string(100000, '(')).empty());
}
