#include "lookup/locate/op_spelling.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/index_file.h"

using namespace optrace;
using namespace optrace::test;

namespace {

class SpellingIndex {
 public:
  SpelledOp operator()(const std::string& spelling) const {
    return find_spelled_op(SourceIndexes(index_), spelling);
  }
  std::string name(const std::string& spelling) const { return (*this)(spelling).name; }

 private:
  static IndexContents many_ops() {
    IndexContents contents;
    std::uint32_t line = 1;
    for (const char* name :
         {"add.Tensor", "add_.Tensor", "add.out", "add.Scalar", "conv2d", "conv2d.padding",
          "conv_transpose2d.input", "linalg_solve", "batch_norm", "gelu", "mse_loss", "relu",
          "absolute", "sum", "sum.dim_IntList"}) {
      std::string unambiguous = name;
      for (char& c : unambiguous)
        if (c == '.') c = '_';
      contents.ops.push_back({std::string("aten::") + name, unambiguous, line++, ""});
    }
    contents.ops.push_back({"shop::sell", "shop_sell", line, ""});
    contents.python_names.push_back({"torch.nn.functional.kneel", 'a', "torch.relu", "", 0});
    contents.python_names.push_back(
        {"torch.bow", 'b', "_ZN5torch8autogradL16THPVariable_geluEP7_objectS2_S2_", "", 0});
    return contents;
  }

  IndexFile file_{many_ops()};
  Index index_ = file_.open();
};

}  // namespace

TEST_CASE("every spelling of an op is understood") {
  const SpellingIndex find;
  for (const char* spelling :
       {"conv2d", "torch.conv2d", "F.conv2d", "torch.nn.functional.conv2d", "nn.functional.conv2d",
        "nn.Conv2d", "torch.nn.Conv2d", "Conv2d", "aten::conv2d", "torch.ops.aten.conv2d",
        "torch.ops.aten.conv2d.default"}) {
    INFO(spelling);
    CHECK(find.name(spelling) == "aten::conv2d");
  }
  for (const char* spelling : {"add.Tensor", "add_Tensor", "aten::add.Tensor",
                               "torch.ops.aten.add.Tensor", "at::_ops::add_Tensor::call"}) {
    INFO(spelling);
    CHECK(find.name(spelling) == "aten::add.Tensor");
    CHECK(find(spelling).chosen_by_user);
  }
  CHECK(find.name("Tensor.add_") == "aten::add_.Tensor");
  CHECK(find.name("torch.linalg.solve") == "aten::linalg_solve");
  CHECK(find.name("nn.ConvTranspose2d") == "aten::conv_transpose2d.input");
  CHECK(find.name("nn.BatchNorm2d") == "aten::batch_norm");
  CHECK(find.name("nn.MSELoss") == "aten::mse_loss");
  CHECK(find.name("nn.ReLU") == "aten::relu");
  CHECK(find.name("torch._C._nn.gelu") == "aten::gelu");
  CHECK(find.name("conv2d.padding") == "aten::conv2d.padding");
  CHECK(find.name("shop::sell") == "shop::sell");
  CHECK(find.name("sell") == "shop::sell");
}

TEST_CASE("names that Python gives to ops lead to them") {
  const SpellingIndex find;
  CHECK(find.name("F.kneel") == "aten::relu");
  CHECK(find("F.kneel").by_way_of == "F.kneel is torch.relu");
  CHECK(find.name("torch.bow") == "aten::gelu");
}

TEST_CASE("a packet stands for its first overload") {
  const SpellingIndex find;
  const SpelledOp add = find("add");
  CHECK(add.name == "aten::add.Tensor");
  CHECK_FALSE(add.chosen_by_user);
  CHECK(add.overloads ==
        std::vector<std::string>{"aten::add.Tensor", "aten::add.out", "aten::add.Scalar"});
  CHECK(find("sum").name == "aten::sum");
  CHECK_FALSE(find("sum").chosen_by_user);
  CHECK(find("relu").chosen_by_user);
}

TEST_CASE("what is no op gets near ones") {
  const SpellingIndex find;
  CHECK(find("conv2").name.empty());
  CHECK(find("conv2").near.at(0) == "conv2d");
  CHECK(find("nn.Rleu").near.at(0) == "relu");
  CHECK(find("add.Tensr").near == find("add").overloads);
  CHECK(find("").name.empty());
  CHECK(find(std::string(100000, 'a')).name.empty());
  CHECK(find("zzzzzzzzzzzzzzzz").near.empty());
  for (const char* odd : {".", "::", "aten::", "aten::.", "torch.", "torch.ops.", "nn.", "a..b",
                          "\x1b[31m", "add.", "add..Tensor"}) {
    INFO(odd);
    CHECK(find(odd).name.empty());
  }
}
