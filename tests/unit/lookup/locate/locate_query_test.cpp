#include "lookup/locate/locate_query.h"

#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "pytorch/symbols/symbol_key.h"

using namespace optrace;
using Words = std::vector<std::string>;

TEST_CASE("a name's form is seen from its spelling", "[locate]") {
  CHECK(parse_name("conv2d").form == NameForm::plain);
  CHECK(parse_name("nn.Linear").form == NameForm::dotted);
  CHECK(parse_name("at::native::conv2d").form == NameForm::cpp);
  CHECK(parse_name("aten::add.Tensor").form == NameForm::cpp);
  CHECK(parse_name("_ZN2at6native6conv2dEv").form == NameForm::mangled);
  CHECK(parse_name("  torch.matmul()\n").text == "torch.matmul");
}

TEST_CASE("a C++ name is taken apart, whoever wrote it", "[locate]") {
  CHECK(parse_name("::at::native::add").components == Words{"at", "native", "add"});
  CHECK(parse_name("at::native::add(at::Tensor const&, c10::Scalar const&)").components ==
        Words{"at", "native", "add"});
  CHECK(parse_name("at::native::add(at::Tensor const&, c10::Scalar const&)").parameters ==
        "(at::Tensorconst&,c10::Scalarconst&)");
  CHECK(parse_name("at::native::add").parameters.empty());
  CHECK(parse_name("at::native::(anonymous namespace)::add_kernel").components ==
        Words{"at", "native", "add_kernel"});
  CHECK(parse_name("at::native::(anonymous namespace)::add_kernel").parameters.empty());
  CHECK(parse_name("void at::native::vectorized_elementwise_kernel<4, at::native::Fill<int>, "
                   "std::array<char*, 1ul> >(int, char*)")
            .components == Words{"at", "native", "vectorized_elementwise_kernel"});
  CHECK(parse_name("at::native::foo(long)::{lambda(int)#2}::operator()(int) const").components ==
        Words{"at", "native", "foo"});
  CHECK(parse_name("c10::SymInt::operator<").components == Words{"c10", "SymInt", "operator<"});
  CHECK(parse_name("at::native::base<false>::operator()<at::native::Assign>").components ==
        Words{"at", "native", "base", "operator()"});
  CHECK(parse_name("at::Tensor::~Tensor()").components == Words{"at", "Tensor", "~Tensor"});
}

TEST_CASE("what ops a name can mean", "[locate]") {
  CHECK(parse_name("add").ops == Words{"aten::add"});
  CHECK(parse_name("aten::add.Tensor").ops == Words{"aten::add.Tensor"});
  CHECK(parse_name("add.Tensor").ops == Words{"aten::add.Tensor", "add::Tensor"});
  CHECK(parse_name("torch.ops.aten.add.Tensor").ops == Words{"aten::add.Tensor"});
  CHECK(parse_name("torch.ops.myns.fold").ops == Words{"myns::fold"});
  CHECK(parse_name("torch._ops.myns.fold").ops == Words{"myns::fold"});
  CHECK(parse_name("aten.add.Tensor").ops == Words{"aten::add.Tensor"});
  CHECK(parse_name("at::native::add").ops.empty());
  CHECK(parse_name("torch.nn.functional.conv2d").ops.empty());
}

TEST_CASE("Python's names are tried as their users spell them", "[locate]") {
  const auto has = [](const std::string& name, const std::string& spelling) {
    const auto all = python_spellings(parse_name(name));
    return std::find(all.begin(), all.end(), spelling) != all.end();
  };
  CHECK(has("F.conv2d", "torch.nn.functional.conv2d"));
  CHECK(has("nn.Linear", "torch.nn.Linear"));
  CHECK(has("functional.relu", "torch.nn.functional.relu"));
  CHECK(has("optim.Adam.step", "torch.optim.Adam.step"));
  CHECK(has("Tensor.add_", "torch.Tensor.add_"));
  CHECK(has("lr_scheduler.StepLR", "torch.optim.lr_scheduler.StepLR"));
  CHECK(python_spellings(parse_name("torch.matmul")).front() == "torch.matmul");
  CHECK(python_spellings(parse_name("at::add")).empty());
}

TEST_CASE("what can be no name is refused", "[locate]") {
  for (const std::string& name :
       {std::string(), std::string("   "), std::string("a\0b", 3), std::string("a\x1b[31m"),
        std::string("\xff\xfe"), std::string(1 << 20, 'x'), std::string("."), std::string("a..b"),
        std::string("()"), std::string("::"), std::string("(anonymous namespace)")}) {
    CAPTURE(name.substr(0, 20));
    CHECK_THROWS_AS(parse_name(name), Error);
  }
}

TEST_CASE("symbols give the components of their names", "[locate]") {
  CHECK(symbol_components("_ZN2at6native6conv2dERKNS_6TensorE") == Words{"at", "native", "conv2d"});
  CHECK(symbol_components("_ZN2at6native12_GLOBAL__N_13addEv") == Words{"at", "native", "add"});
  CHECK(symbol_components("_ZNK2at10TensorBase4sizeEl") == Words{"at", "TensorBase", "size"});
  CHECK(symbol_components("_ZN2at6TensorC1ERKS0_") == Words{"at", "Tensor", "Tensor"});
  CHECK(symbol_components("_ZN2at6TensorD1Ev") == Words{"at", "Tensor", "~Tensor"});
  CHECK(symbol_components("_ZN2at6TensoraSERKS0_") == Words{"at", "Tensor", "operator="});
  CHECK(symbol_components("_ZTIN2at14TensorIteratorE") == Words{"at", "TensorIterator"});
  CHECK(symbol_components("_Z9THPModulev") == Words{"THPModule"});
  CHECK(symbol_components("_ZN3c1019TypedOperatorHandle4callE") ==
        Words{"c10", "TypedOperatorHandle", "call"});
  CHECK(symbol_components("_ZN2at6native10gpu_launchINS_6TensorEEEvT_") ==
        Words{"at", "native", "gpu_launch"});
  CHECK(symbol_components("_ZN2at6native8add_stubE") == Words{"at", "native", "add_stub"});
  CHECK(symbol_components("cudnnBackendExecute") == Words{"cudnnBackendExecute"});
  // The key of a lambda starts with the key of its function.
  CHECK(symbol_components("_ZN2at6native3addEvUl.#0") == Words{"at", "native", "add"});
}

TEST_CASE("a part that is in the parameters only names nothing", "[locate]") {
  CHECK(may_name("_ZN2at6native6conv2dERKNS_6TensorE", "6conv2d"));
  CHECK_FALSE(may_name("_ZN2at6native6conv2dERKNS_6TensorE", "6Tensor"));
  CHECK(may_name("_ZN2at6TensorC1ERKS0_", "6Tensor"));
  // A name that is not a plain identifier requires the demangler.
  CHECK(may_name("_ZN2at6TensoraSERKS0_", "5other"));
}

TEST_CASE("how names fit", "[locate]") {
  const Words symbol = {"at", "native", "conv2d_symint"};
  CHECK(fit({"at", "native", "conv2d"}, {"at", "native", "conv2d"}) == NameFit::exact);
  CHECK(fit(symbol, {"at", "native", "conv2d"}) == NameFit::exact_symint);
  CHECK(fit({"at", "native", "conv2d"}, {"native", "conv2d"}) == NameFit::suffix);
  CHECK(fit(symbol, {"conv2d"}) == NameFit::suffix_symint);
  CHECK(fit({"at", "native", "conv2d"}, {"at", "conv2d"}) == NameFit::scattered);
  CHECK(fit({"at", "native", "structured_gelu", "impl"}, {"structured_gelu"}) == NameFit::member);
  CHECK(fit({"at", "native", "conv2d"}, {"conv3d"}) == NameFit::none);
  CHECK(fit({"conv2d"}, {"at", "conv2d"}) == NameFit::none);
  CHECK(fit({}, {"conv2d"}) == NameFit::none);
}

TEST_CASE("garbage is taken apart or refused, and nothing else", "[locate]") {
  std::mt19937 random(7);
  const std::string alphabet = "_ZN2at6native<>(){}[]::.#,* Ul0E~operator \t\x01\xc3\xa9";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto length = random() % 40; length > 0; --length)
      text += alphabet[random() % alphabet.size()];
    (void)symbol_components(text);
    (void)may_name(text, "6native");
    try {
      const NameQuery query = parse_name(text);
      CHECK(query.text.size() <= text.size());
      (void)python_spellings(query);
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
    }
  }
}
