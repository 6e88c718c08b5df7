#include "pytorch/installed/installed_torch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "platform/files/private_folder.h"
#include "pytorch/installed/torch_version.h"
#include "tests/unit/environment_variable.h"

using namespace optrace;
using test::EnvironmentVariable;

namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

const std::string kVersion =
    "from typing import Optional\n"
    "__all__ = ['__version__', 'debug']\n"
    "__version__ = '2.6.0+cu124'\n"
    "cuda: Optional[str] = '12.4'\n"
    "git_version = '2236df1770800ffea5697b11b0bb0d910b2e59e1'\n";

}  // namespace

TEST_CASE("the torch of an interpreter is found by its files", "[installed_torch]") {
  const PrivateFolder folder;
  const EnvironmentVariable python_path("PYTHONPATH", std::nullopt);
  const EnvironmentVariable home("HOME", (folder.path() / "home").c_str());
  const auto installed = folder.path() / "installed";
  write(installed / "bin/python3.11", "");
  write(installed / "lib/python3.11/site-packages/torch/version.py", kVersion);
  // Belongs to another Python below the same prefix.
  write(installed / "lib/python3.12/site-packages/torch/version.py", "__version__ = '9.9.9'\n");
  std::filesystem::create_symlink("python3.11", installed / "bin/python3");

  const auto found = find_torch(installed / "bin/python3");
  REQUIRE(found);
  CHECK(found->version == "2.6.0+cu124");
  CHECK(found->git_version == "2236df1770800ffea5697b11b0bb0d910b2e59e1");
  CHECK(found->folder == installed / "lib/python3.11/site-packages/torch");

  SECTION("a virtual environment has its own, though its python is a link") {
    const auto venv = folder.path() / "venv";
    write(venv / "pyvenv.cfg", "home = /somewhere\ninclude-system-site-packages = false\n");
    std::filesystem::create_directories(venv / "bin");
    std::filesystem::create_symlink(installed / "bin/python3", venv / "bin/python");
    CHECK_FALSE(find_torch(venv / "bin/python"));
    write(venv / "pyvenv.cfg", "include-system-site-packages = true\n");
    CHECK(find_torch(venv / "bin/python")->version == "2.6.0+cu124");
    write(venv / "lib/python3.11/site-packages/torch/version.py", "__version__ = \"2.7.0\"\n");
    CHECK(find_torch(venv / "bin/python")->version == "2.7.0");
    CHECK(find_torch(venv / "bin/python")->git_version.empty());
  }
  SECTION("PYTHONPATH and the user's own packages go first") {
    write(folder.path() / "home/.local/lib/python3.11/site-packages/torch/version.py",
          "__version__ = '2.8.0'\n");
    CHECK(find_torch(installed / "bin/python3")->version == "2.8.0");
    write(folder.path() / "path/torch/version.py", "__version__ = '2.9.0'\n");
    const EnvironmentVariable path("PYTHONPATH",
                                   ("::" + (folder.path() / "path").string()).c_str());
    CHECK(find_torch(installed / "bin/python3")->version == "2.9.0");
  }
}

TEST_CASE("a strange version.py is no torch", "[installed_torch]") {
  const PrivateFolder folder;
  const EnvironmentVariable python_path("PYTHONPATH", std::nullopt);
  const EnvironmentVariable home("HOME", std::nullopt);
  write(folder.path() / "bin/python3.11", "");
  const auto file = folder.path() / "lib/python3.11/site-packages/torch/version.py";
  const auto version = [&](const std::string& text) -> std::string {
    write(file, text);
    const auto found = find_torch(folder.path() / "bin/python3.11");
    return found ? found->version : "none";
  };
  CHECK(version(kVersion) == "2.6.0+cu124");
  for (const std::string& text :
       {std::string(), std::string("__version__ ="), std::string("__version__ = 2.6"),
        std::string("__version__ = '2.6"), std::string("__version__ = ''"),
        std::string("__version__ = '../../x'"), std::string("__version__ = 'a\x1b[31m'"),
        "__version__ = '" + std::string(500, '1') + "'", std::string(1 << 20, '\0')}) {
    CAPTURE(text.substr(0, 30));
    CHECK(version(text) == "none");
  }
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text = kVersion;
    for (int change = 0; change < 5; ++change)
      text[random() % text.size()] = static_cast<char>(random());
    const std::string found = version(text);
    CHECK(found.size() <= 100);
    CHECK(found.find('/') == std::string::npos);
  }
}

TEST_CASE("version.py is read as wheels write it", "[installed_torch]") {
  const TorchVersion version = parse_torch_version(kVersion);
  CHECK(version.text == kVersion);
  CHECK(version.version == "2.6.0+cu124");
  CHECK(version.cuda == "12.4");
  CHECK(version.git_version == "2236df1770800ffea5697b11b0bb0d910b2e59e1");
  for (const char* const text :
       {"", "cuda: Optional[str] = None\n", "cuda = None\ncuda_arch = 'x'\n",
        "cuda_version = '12.4'\n", "xcuda = '12.4'\n", "cuda\n"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_torch_version(text).cuda);
  }
  CHECK(parse_torch_version("cuda = \"13.0\"  # comment\r\n").cuda == "13.0");
}
