#include "src/inputs/selected_index.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <catch2/catch.hpp>

#include "indexer/store/index_writer.h"
#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "src/inputs/python_inspection.h"
#include "tests/unit/environment_variable.h"

using namespace optrace;
using test::EnvironmentVariable;

namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("the index for the torch at hand, and what is said where none is exact",
          "[index_choice]") {
  const PrivateFolder folder;
  const EnvironmentVariable python_path("PYTHONPATH", std::nullopt);
  const EnvironmentVariable home("HOME", folder.path().c_str());
  const EnvironmentVariable indexes("OPTRACE_INDEX_DIR", (folder.path() / "indexes").c_str());
  write(folder.path() / "bin/python3.11", "#!/bin/sh\n");
  std::filesystem::permissions(folder.path() / "bin/python3.11", std::filesystem::perms::owner_all);
  const std::string python = (folder.path() / "bin/python3.11").string();
  const auto file = folder.path() / "lib/python3.11/site-packages/torch/version.py";
  std::filesystem::create_directories(folder.path() / "indexes");
  IndexContents contents;
  // Newer than the index that comes with optrace, so that it is the nearest.
  contents.meta = {{"torch_version", "7.1.0"}, {"git_version", std::string(40, 'b')}};
  write_index(contents, folder.path() / "indexes/torch-7.1.0.index");

  write(file, "__version__ = '7.1.0+cpu'\ngit_version = '" + std::string(40, 'b') + "'\n");
  SelectedIndex choice = choose_index(python);
  CHECK(choice.index.torch_version() == "7.1.0");
  CHECK(choice.exact);

  write(file, "__version__ = '7.1.0+cpu'\ngit_version = '" + std::string(40, 'c') + "'\n");
  choice = choose_index(python);
  CHECK_FALSE(choice.exact);
  REQUIRE_FALSE(choice.notices.empty());
  CHECK(choice.notices.back().find("torch 7.1.0") != std::string::npos);

  std::filesystem::remove(file);
  choice = choose_index(python);
  CHECK_FALSE(choice.torch);
  CHECK(choice.index.torch_version() == "7.1.0");
  REQUIRE_FALSE(choice.notices.empty());
  CHECK(choice.notices.back().find("no torch") != std::string::npos);

  CHECK_THROWS_AS(choose_index((folder.path() / "no/python").string()), Error);
}

TEST_CASE("only words with dots between are asked of Python", "[index_choice]") {
  CHECK(is_dotted_python_name("torchvision.ops.nms"));
  CHECK(is_dotted_python_name("a._b1.C"));
  for (const char* const name : {"", "nms", ".a", "a.", "a..b", "a.1b", "a.b;c", "a.b()", "a b.c",
                                 "a.b\n", "../x.y", "a.\xc3\xa9"}) {
    CAPTURE(name);
    CHECK_FALSE(is_dotted_python_name(name));
  }
}
