#include "lookup/layers/layer_survey.h"

#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "tests/unit/index_file.h"

using namespace optrace;
using namespace optrace::test;

namespace {
std::string layer_id(std::string_view file) {
  const MappedLayer* const layer = layer_of_file(file);
  return layer == nullptr ? "none" : std::string(layer->id);
}
}  // namespace

TEST_CASE("a file belongs to the layer with the longest beginning of its path", "[layers]") {
  CHECK(layer_id("torch/_tensor.py") == "python");
  CHECK(layer_id("torch/nn/functional.py") == "functional");
  CHECK(layer_id("torch/nn/modules/linear.py") == "nn");
  CHECK(layer_id("torch/csrc/autograd/engine.cpp") == "autograd");
  CHECK(layer_id("torch/csrc/autograd/generated/python_torch_functions_0.cpp") == "bindings");
  CHECK(layer_id("torch/csrc/Module.cpp") == "bindings");
  CHECK(layer_id("aten/src/ATen/core/dispatch/Dispatcher.h") == "dispatcher");
  CHECK(layer_id("aten/src/ATen/native/Convolution.cpp") == "aten");
  CHECK(layer_id("aten/src/ATen/native/cuda/Loops.cuh") == "cuda");
  CHECK(layer_id("c10/cuda/CUDACachingAllocator.cpp") == "cuda");
  CHECK(layer_id("c10/core/TensorImpl.cpp") == "c10");
  CHECK(layer_id("torch/_inductor/compile_fx.py") == "compiler");
  CHECK(layer_id("torch/testing/_comparison.py") == "none");
  CHECK(layer_id("torchgen/model.py") == "none");
  CHECK(layer_id("") == "none");
}

TEST_CASE("doors lead to layers", "[layers]") {
  std::set<std::string_view> ids = {"libraries"};
  for (const MappedLayer& layer : layer_map()) CHECK(ids.insert(layer.id).second);
  for (const MappedLayer& layer : layer_map()) {
    CAPTURE(layer.id);
    CHECK_FALSE(layer.exits.empty());
    for (const LayerExit& exit : layer.exits) CHECK(ids.contains(exit.leads_to));
    CHECK(layer.ops_meant.empty() == (layer.holds == nullptr));
  }
}

TEST_CASE("layers are counted from an index", "[layers]") {
  IndexContents contents;
  contents.meta = {{"torch_version", "2.6.0"}};
  contents.functions = {{"_ZN2at6native1fEv", "aten/src/ATen/native/A.cpp", 1, {}},
                        {"_ZN2at6native1gEv", "aten/src/ATen/native/cuda/B.cu", 2, {}},
                        {"_ZN3c1012GetAllocatorEv", "c10/core/Allocator.cpp", 54, {}}};
  contents.python_names = {{"torch.nn.modules.linear.Linear", 'c', "", "torch/nn/linear.py", 5},
                           {"torch.nn.Linear", 'a', "torch.nn.modules.linear.Linear", "", 0}};
  OpFacts facts;
  facts.schema = "f(Tensor self) -> Tensor";
  facts.kernels = {{"CUDA", "at::native::g"}};
  contents.ops = {{"aten::f", "f", 3, to_json(facts)}};
  contents.registrations = {
      {RegistrationKind::definition, "quantized::f", "", "", "aten/src/ATen/native/Q.cpp", 9}};
  const IndexFile file(std::move(contents));
  const Index index = file.open();
  for (const LayerSurvey& survey : survey_layers(index)) {
    const std::string_view id = survey.layer->id;
    CAPTURE(id);
    CHECK(survey.definitions == (id == "aten" || id == "cuda" || id == "c10" ? 1 : 0));
    CHECK(survey.python_definitions == (id == "nn" ? 1 : 0));
    if (id == "dispatcher") CHECK(survey.ops == 2);
    if (id == "aten" || id == "cuda") CHECK(survey.ops == 1);
    if (id == "autograd") CHECK(survey.ops == 0);
    if (id == "c10") {
      REQUIRE(survey.exits.front().located);
      CHECK(survey.exits.front().located->line == 54);
    }
  }
}
