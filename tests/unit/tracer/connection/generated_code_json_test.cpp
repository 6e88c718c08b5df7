#include "tracer/connection/generated_code_json.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"

using namespace optrace;
using Json = nlohmann::json;

namespace {

Json generated_file(const std::string& name, int line, const Json& origins = nullptr) {
  Json kernel = {{"name", "cpp_fused_add_0"}, {"library", "/g/k.so"}};
  if (!origins.is_null()) kernel["origins"] = origins;
  return Json::array(
      {{{"file", "/g/ab/" + name},
        {"kernels", Json::array({kernel})},
        {"calls", {{{"line", 9}, {"origin", {{"file", "/x.py"}, {"line", line}}}}}}}});
}

std::size_t files_in(const std::filesystem::path& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

TEST_CASE("what was fused is kept for the same code of the same lines", "[generated_code_cache]") {
  const PrivateFolder folder;
  const Json origins = {{{"op", "aten::add.Tensor"}, {"file", "/x.py"}, {"line", 3}}};
  Json first = generated_file("cabc.py", 3, origins);
  first[0]["not_fused"] = {{{"producer", "cpp_fused_add_0"}, {"consumer", "extern_kernels.mm"}}};
  const Json before = first;
  complete_kernel_origins(first, folder.path());
  CHECK(first == before);
  Json again = generated_file("cabc.py", 3);
  complete_kernel_origins(again, folder.path());
  CHECK(again == before);
  // The same graph of another program has the same generated file.
  Json other_lines = generated_file("cabc.py", 4);
  complete_kernel_origins(other_lines, folder.path());
  CHECK(other_lines == generated_file("cabc.py", 4));
  Json other_file = generated_file("cabd.py", 3);
  complete_kernel_origins(other_file, folder.path());
  CHECK(other_file == generated_file("cabd.py", 3));
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("code from Inductor's cache has the lines of the traced program",
          "[generated_code_cache]") {
  const PrivateFolder folder;
  const auto node = [](const char* name, const char* file, int line) {
    return Json{{"node", name}, {"file", file}, {"line", line}};
  };
  Json first = generated_file("cabc.py", 3, {node("relu", "/x.py", 3), node("tanh", "/x.py", 4)});
  complete_kernel_origins(first, folder.path());
  Json second = generated_file("cabc.py", 3);
  second[0]["calls"].push_back({{"line", 12}, {"origin", {{"file", "/x.py"}, {"line", 5}}}});
  const Json nodes = {node("relu", "/y.py", 7), node("mm", "/y.py", 8)};
  Json without_kept = second;
  without_kept[0]["nodes"] = nodes;
  complete_kernel_origins(without_kept, folder.path());
  CHECK(without_kept[0]["calls"][0]["origin"] == Json::object());
  second[0]["calls"].erase(1);
  second[0]["nodes"] = nodes;
  complete_kernel_origins(second, folder.path());
  CHECK(second[0]["calls"][0]["origin"] == Json{{"file", "/y.py"}, {"line", 7}});
  CHECK(second[0]["kernels"][0]["origins"] == Json({node("relu", "/y.py", 7), {{"node", "tanh"}}}));
  CHECK_FALSE(second[0].contains("nodes"));
}

TEST_CASE("a model whose package was removed has the kernels that were kept",
          "[generated_code_cache]") {
  const PrivateFolder folder;
  const Json kernel = {{"name", "cpp_fused_add_0"},
                       {"source", {{"file", "/cache/cabd.kernel.cpp"}, {"line", 4}}},
                       {"origins", {{{"op", "aten::add.Tensor"}}}}};
  Json generated = Json::array({{{"file", "/cache/cabc.wrapper.cpp"},
                                 {"kernels", Json::array({kernel})},
                                 {"calls", Json::array()}}});
  complete_kernel_origins(generated, folder.path());
  Json removed = Json::array({{{"file", "/tmp/x/cabc.wrapper.cpp"},
                               {"kernels", Json::array()},
                               {"calls", Json::array()}}});
  complete_kernel_origins(removed, folder.path());
  CHECK(removed[0]["kernels"] == Json::array({kernel}));
}

TEST_CASE("hostile generated files keep nothing and read nothing", "[generated_code_cache]") {
  const PrivateFolder folder;
  const Json origins = {{{"op", "aten::relu"}}};
  for (const char* const name :
       {"", "..", "../c.py", "a/../../c.py", "c", ".py", "C.py", "c.pyc"}) {
    Json generated = generated_file(name, 3, origins);
    complete_kernel_origins(generated, folder.path());
  }
  for (const char* const text : {"3", "{}", "[1, null, []]", R"([{"file": 3}])",
                                 R"([{"file": "/g/cabc.py", "kernels": [1, {"name": 2}]}])"}) {
    Json generated = Json::parse(text);
    complete_kernel_origins(generated, folder.path());
    CHECK(generated == Json::parse(text));
  }
  CHECK(files_in(folder.path()) == 1);  // "../c.py" is a file called c.py.
  for (const char* const content : {"", "{", "[]", R"({"calls": 1})", R"({"origins": 2})"}) {
    std::ofstream(folder.path() / "cabc.json") << content;
    Json generated = generated_file("cabc.py", 3);
    complete_kernel_origins(generated, folder.path());
    CHECK(generated == generated_file("cabc.py", 3));
  }
  Json generated = generated_file("cabc.py", 3, origins);
  complete_kernel_origins(generated, {});
  complete_kernel_origins(generated, folder.path() / "missing");
}

TEST_CASE("generated files are copied once", "[generated_code_cache]") {
  const PrivateFolder cache, folder;
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(cache.path() / name) << text;
    return (cache.path() / name).string();
  };
  const auto copied = [&](const char* name) {
    return read_file(folder.path() / name).value_or("");
  };
  const Json generated = Json::array(
      {{{"file", write("cabc.py", "call")},
        {"kernels", {{{"name", "k"}, {"source", {{"file", write("ck.cpp", "kernel")}}}}}}},
       {{"file", write("other-name.py", "")}, {"kernels", 3}},
       {{"file", "cabd.py"}},
       {{"file", (cache.path() / "cgone.py").string()}},
       {{"file", cache.path().string()}},
       7});
  copy_generated_files(generated, folder.path());
  CHECK(copied("cabc.py") == "call");
  CHECK(copied("ck.cpp") == "kernel");
  CHECK(files_in(folder.path()) == 2);
  write("cabc.py", "changed");
  copy_generated_files(generated, folder.path());
  CHECK(copied("cabc.py") == "call");
  copy_generated_files(generated, {});
  copy_generated_files(nullptr, folder.path());
}
