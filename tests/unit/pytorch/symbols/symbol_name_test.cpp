#include "pytorch/symbols/symbol_name.h"

#include <string>

#include <catch2/catch.hpp>

using optrace::qualified_name;
using optrace::short_name;
using optrace::shorten_middle;

TEST_CASE("a symbol's name has no parameters and no return type", "[symbol_name]") {
  const auto [symbol, name] = GENERATE(table<std::string, std::string>({
      {"_ZN2at4_ops6conv2d4callERKNS_6TensorES4_RKN3c108optionalIS2_EENS5_8ArrayRefIlEESA_SA_l",
       "at::_ops::conv2d::call"},
      {"_ZN5torch8autograd12VariableType12_GLOBAL__N_111convolutionEv",
       "torch::autograd::VariableType::(anonymous namespace)::convolution"},
      {"_ZN3FoolsERKS_", "Foo::operator<<"},
      {"_ZN3FooclEi", "Foo::operator()"},
      {"_ZNK3FooltERKS_", "Foo::operator<"},
      {"_ZN3FoogtERKS_", "Foo::operator>"},
      {"_ZN3FooptEv", "Foo::operator->"},
      {"_ZNK3FoocvbEv", "Foo::operator bool"},
      {"_ZNK3FoocvSt6vectorIiSaIiEEEv", "Foo::operator std::vector<int, std::allocator<int> >"},
      {"_ZZN2at6native3fooERKNS_6TensorEENKUlvE_clEv", "at::native::foo::{lambda#1}::operator()"},
      {"_ZZN2at6native3fooERKNS_6TensorEENKUllT_E0_clIiEEDalS4_",
       "at::native::foo::{lambda#2}::operator()<int>"},
      {"_ZN2at6native3barIfEEvPT_", "at::native::bar<float>"},
      {"_ZZN2at6native3barIfEEvPT_ENKUlvE_clEv", "at::native::bar<float>::{lambda#1}::operator()"},
      {"_ZN3Foo3barB5cxx11Ev", "Foo::bar"},
      {"_ZN3Foo3barEv.isra.0", "Foo::bar"},
      {"_ZN3Foo3barEv.cold", "Foo::bar"},
      {"_ZN3FooC2Ev", "Foo::Foo"},
      {"_ZN3FooD1Ev", "Foo::~Foo"},
      {"dnnl_primitive_execute", "dnnl_primitive_execute"},
      {"_PyEval_EvalFrameDefault.cold", "_PyEval_EvalFrameDefault"},
      {"memcpy@@GLIBC_2.14", "memcpy"},
      {"_Znotasymbol", "_Znotasymbol"},
      {"", ""},
  }));
  CHECK(qualified_name(symbol) == name);
}

TEST_CASE("the short name drops what a reader of a stack does not need", "[symbol_name]") {
  CHECK(short_name("at::native::(anonymous namespace)::add_kernel") == "at::native::add_kernel");
  CHECK(short_name("torch::autograd::VariableType::(anonymous namespace)::convolution") ==
        "VariableType::convolution");
  CHECK(short_name("torch::autograd::THPVariable_conv2d") == "THPVariable_conv2d");
  CHECK(short_name("a::f<b<c>, d>::g") == "a::f<…>::g");
  CHECK(short_name("torch::autograd::CppNode<vision::ops::(anonymous namespace)::F<int>>::apply") ==
        "torch::autograd::CppNode<vision::ops::F<…>>::apply");
  CHECK(short_name("a::operator<<") == "a::operator<<");
  CHECK(short_name("__main__.<module>") == "__main__.<module>");
  CHECK(short_name("m.f.<locals>.<lambda>") == "m.f.<locals>.<lambda>");
}

TEST_CASE("shortening keeps both ends and whole characters", "[symbol_name]") {
  CHECK(shorten_middle("abcdefghij", 10) == "abcdefghij");
  CHECK(shorten_middle("abcdefghij", 5) == "ab…ij");
  CHECK(shorten_middle("äöüßäöüß", 5) == "äö…üß");
  CHECK(shorten_middle("abc", 0).empty());
}

TEST_CASE("names from a hostile trace neither crash nor hang", "[symbol_name]") {
  std::string symbol = "_ZN";
  for (int i = 0; i < 200; ++i) {
    symbol += "St6vectorI<(>[{"[static_cast<std::size_t>(i) % 15];
    (void)qualified_name(symbol);
    (void)short_name(symbol);
  }
  (void)short_name("<<<<((((operator");
  (void)qualified_name("_Z" + std::string(200'000, 'N'));
}
