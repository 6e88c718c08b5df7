#include "indexer/catalogue/python_catalogue.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/core.h>

#include "indexer/catalogue/catalogue_json.h"
#include "platform/error.h"
#include "platform/files/private_folder.h"

using namespace optrace;

namespace {

const std::string kLinear =
    R"({"name": "torch.nn.Linear", "kind": "c", "target": "torch.nn.Module", )"
    R"("file": "torch/nn/linear.py", "line": 50})";

const std::string kTables = R"(
// static PyMethodDef commented[] = {{"x", y, 0, 0}};
static PyMethodDef torch_functions_shard[] = {
  {"add", castPyCFunctionWithKeywords(THPVariable_add), METH_VARARGS | METH_KEYWORDS, "a, {b} \"c\""},
  {"__mul__", castPyCFunctionWithKeywords(TypeError_to_NotImplemented_<THPVariable_mul>), 0, nullptr},
  // {"gone", THPVariable_gone, 0, nullptr},
  {"conj", (PyCFunction)(void(*)(void))THPVariable_conj, METH_NOARGS, nullptr}, /* "}" */
  {nullptr, nullptr, 0, nullptr}
};
static struct PyGetSetDef THPVariable_properties[] = {
    {"T", (getter)PropertyT::getter, nullptr, nullptr, nullptr},
    {"only_set", nullptr, (setter)set_it, nullptr, nullptr},
    {"shape",
     (getter)THPVariable_get_shape,
     nullptr}};
static const std::initializer_list<PyMethodDef> THPDevice_methods = {
    {"__reduce__", THPDevice_reduce, METH_NOARGS, nullptr}, {nullptr}};
extern PyMethodDef variable_methods[];
static std::vector<PyMethodDef> methods;
)";

std::string what_parse_names_says(const std::string& lines) {
  try {
    (void)parse_python_names(lines);
  } catch (const Error& error) {
    CHECK(error.status() == ExitStatus::failed);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Python names are read as the catalogue wrote them") {
  const auto names = parse_python_names(
      kLinear + "\n" +
      R"({"name": "torch.add", "kind": "b", "target": "", "file": "", "line": 0})" + "\n");
  REQUIRE(names.size() == 2);
  CHECK(names[0].name == "torch.nn.Linear");
  CHECK(names[0].kind == 'c');
  CHECK(names[0].target == "torch.nn.Module");
  CHECK(names[0].file == "torch/nn/linear.py");
  CHECK(names[0].line == 50);
  CHECK(names[1].file.empty());
}

TEST_CASE("what is no list of Python names is refused with its line") {
  for (const std::string line :
       {"x", "7", "{}", R"({"name": "a", "kind": "x", "target": "", "file": "", "line": 0})",
        R"({"name": "a", "kind": "", "target": "", "file": "", "line": 0})",
        R"({"name": "a", "kind": "f", "target": 1, "file": "", "line": 0})",
        R"({"name": "a", "kind": "f", "target": "a\u0000", "file": "", "line": 0})",
        R"({"name": "a", "kind": "f", "target": "", "file": "", "line": null})"}) {
    INFO(line);
    CHECK(what_parse_names_says(fmt::format("{}\n{}", kLinear, line)).find("line 2") !=
          std::string::npos);
  }
  std::mt19937 random(8);
  for (int round = 0; round < 5000; ++round) {
    std::string lines = fmt::format("{0}\n{0}", kLinear);
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      lines[random() % lines.size()] = static_cast<char>(random());
    }
    (void)what_parse_names_says(lines);
  }
}

TEST_CASE("method tables are read from source") {
  std::string said;
  for (const auto& entry : method_entries(kTables)) {
    said += entry.table + "." + entry.name + "=" + entry.function + "\n";
  }
  CHECK(said ==
        "torch_functions_shard.add=THPVariable_add\n"
        "torch_functions_shard.__mul__=THPVariable_mul\n"
        "torch_functions_shard.conj=THPVariable_conj\n"
        "THPDevice_methods.__reduce__=THPDevice_reduce\n"
        "THPVariable_properties.T=PropertyT::getter\n"
        "THPVariable_properties.shape=THPVariable_get_shape\n");
  CHECK(method_entries("").empty());
  CHECK(method_entries("PyMethodDef").empty());
  CHECK(method_entries("PyMethodDef x[] = {").empty());
  CHECK(method_entries("PyMethodDef x[] = {{\"").empty());

  std::mt19937 random(9);
  for (int round = 0; round < 3000; ++round) {
    std::string text = kTables;
    for (auto changes = 1 + random() % 4; changes > 0; --changes) {
      text[random() % text.size()] = "{}()\"'\\/*,x="[random() % 13];
    }
    text.resize(random() % (text.size() + 1));
    (void)method_entries(text);
  }
}

TEST_CASE("builtins are bound to the function that their method table names") {
  const PrivateFolder folder;
  const auto generated = folder.path() / "generated";
  const std::string file = "torch/csrc/autograd/generated/python_torch_functions_0.cpp";
  std::filesystem::create_directories((generated / file).parent_path());
  std::ofstream(generated / file) << kTables;

  IndexContents contents;
  contents.functions = {
      {"_ZN5torch8autograd15THPVariable_addEP7_objectS2_S2_", file, 30, {}},
      {"_ZN5torch8autograd15THPVariable_addEP7_objectS2_S2_Ul.#0", file, 20, {}},
      {"_ZN5torch8autograd15THPVariable_addEP7_objectS2_S2_",
       "torch/csrc/autograd/generated/python_variable_methods.cpp",
       10,
       {}},
      {"_ZN9PropertyT2fnERKN2at6TensorE", file, 50, {}},
      {"_Z21THPVariable_get_shapeP11THPVariablePv", file, 60, {}},
      {"_Z99999999999999999999x", file, 70, {}},
  };
  const auto builtin = [](const std::string& name) {
    return IndexContents::PythonName{name, 'b', "", "", 0};
  };
  contents.python_names = {builtin("torch.add"),
                           builtin("torch.conj"),
                           builtin("torch.Tensor.T"),
                           builtin("torch.Tensor.shape"),
                           {"torch._C.TensorBase.shape", 'a', "torch.Tensor.shape", "", 0}};
  bind_python_names(contents, {folder.path() / "tree", generated});
  const auto& names = contents.python_names;
  CHECK(names[0].target == "_ZN5torch8autograd15THPVariable_addEP7_objectS2_S2_");
  CHECK(names[0].file == file);
  CHECK(names[0].line == 30);
  CHECK(names[1].target.empty());  // Its function is not indexed.
  CHECK(names[2].line == 50);
  CHECK(names[3].line == 60);
  CHECK(names[4].target == "torch.Tensor.shape");
}
