#include "platform/elf/dynamic_symbols.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "gpu/build/device_libraries.h"
#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "tests/unit/small_library.h"

using namespace optrace;
using namespace optrace::test;

namespace {

/// Builds a library that imports functions of two versions, functions without a version, and a weak
/// one.
std::filesystem::path build_importer(const std::filesystem::path& folder) {
  write_bytes(folder / "versions", "libcublas.so.12 { cublasOne; };\nOTHER { cublasTwo; };\n");
  const auto library = build_library(
      folder, "cublas.cpp",
      "extern \"C\" int cublasOne() { return 1; }\n"
      "extern \"C\" int cublasTwo() { return 2; }\n",
      {"-Wl,-soname,libcublas.so.12", "-Wl,--version-script=" + (folder / "versions").string()});
  std::filesystem::create_directory(folder / "lib");
  return build_library(folder, "importer.cpp",
                       "extern \"C\" int cublasOne();\nextern \"C\" int cublasTwo();\n"
                       "extern \"C\" int cublasThree();\nextern \"C\" int cuInit(unsigned);\n"
                       "extern \"C\" __attribute__((weak)) int cublasFour();\n"
                       "extern \"C\" int all() { return cublasOne() + cublasTwo() + cublasThree()"
                       " + cuInit(0) + (cublasFour ? cublasFour() : 0); }\n",
                       {"-Wl,--no-as-needed", library.string()});
}

const DynamicImport& named(const DynamicImports& imports, std::string_view name) {
  const auto found = std::ranges::find(imports.symbols, name, &DynamicImport::name);
  REQUIRE(found != imports.symbols.end());
  return *found;
}

}  // namespace

TEST_CASE("a library's imports are read with their versions and files") {
  const PrivateFolder folder;
  const DynamicImports imports = read_dynamic_imports(build_importer(folder.path()));
  CHECK(std::ranges::count(imports.needed, "libcublas.so.12") == 1);
  CHECK(named(imports, "cublasOne").version == "libcublas.so.12");
  CHECK(named(imports, "cublasOne").library == "libcublas.so.12");
  CHECK(named(imports, "cublasTwo").version == "OTHER");
  CHECK(named(imports, "cublasTwo").library == "libcublas.so.12");
  CHECK(named(imports, "cublasThree").version.empty());
  CHECK_FALSE(named(imports, "cublasThree").weak);
  CHECK(named(imports, "cublasFour").weak);
  CHECK(std::ranges::count(imports.symbols, "all", &DynamicImport::name) == 0);
}

TEST_CASE("names are looked up in what a library exports") {
  const PrivateFolder folder;
  std::string code;
  std::set<std::string> all;
  for (int i = 0; i < 300; ++i) {
    all.insert("given_" + std::to_string(i));
    code += "extern \"C\" int given_" + std::to_string(i) + "() { return 0; }\n";
  }
  code +=
      "static int hidden() { return 1; }\nextern \"C\" int elsewhere();\n"
      "extern \"C\" int uses() { return hidden() + elsewhere(); }\n";
  const auto library = build_library(folder.path(), "given.cpp", code, {"-Wl,-soname,libgiven.so"});
  std::set<std::string> asked = all;
  asked.insert({"hidden", "elsewhere", "given_", "given_300", ""});
  const DynamicExports exports = find_exports(library, asked);
  CHECK(exports.soname == "libgiven.so");
  CHECK(exports.found == all);
  const auto old =
      build_library(folder.path(), "old.cpp", "int old() { return 0; }", {"-Wl,--hash-style=sysv"});
  CHECK(find_exports(old, {"_Z3oldv"}).found.empty());
}

TEST_CASE("imports belong to the library of their version, else to the one of their name") {
  const PrivateFolder folder;
  const auto libraries = device_libraries({build_importer(folder.path())});
  REQUIRE(libraries.size() == 3);
  CHECK(libraries[0].soname == "libcublas.so.12");
  CHECK(libraries[0].functions ==
        std::map<std::string, std::set<std::string>>{
            {"", {"cublasThree"}}, {"OTHER", {"cublasTwo"}}, {"libcublas.so.12", {"cublasOne"}}});
  CHECK(libraries[1].soname == "libcuda.so.1");
  CHECK(libraries[1].functions == std::map<std::string, std::set<std::string>>{{"", {"cuInit"}}});
  CHECK(libraries[2].soname == "libnvidia-ml.so.1");
  CHECK(version_script(libraries[0]) ==
        "libcublas.so.12 {\n  global:\n    cublas*;\n    cublasThree;\n    cublasOne;\n"
        "  local: *;\n};\nOTHER {\n  global:\n    cublasTwo;\n};\n");
  CHECK(version_script(libraries[1]) == "{\n  global:\n    cu*;\n    cuInit;\n  local: *;\n};\n");
}

TEST_CASE("a library's exports are read with their versions") {
  const PrivateFolder folder;
  build_importer(folder.path());
  std::map<std::string, std::string> versions;
  for (const DynamicExport& symbol : read_dynamic_exports(folder.path() / "libcublas.so"))
    versions.emplace(symbol.name, symbol.version);
  CHECK(versions == std::map<std::string, std::string>{{"cublasOne", "libcublas.so.12"},
                                                       {"cublasTwo", "OTHER"}});
}

TEST_CASE("prebuilt libraries serve a torch that imports nothing that they lack") {
  const PrivateFolder folder;
  const auto torch = folder.path() / "torch";
  std::filesystem::create_directories(torch / "lib");
  std::filesystem::rename(build_importer(folder.path()), torch / "lib/libtorch_cuda.so");
  LibrariesOfTorch libraries({torch});
  const auto all = [](const DeviceLibrary&) { return true; };
  Prebuilt prebuilt{.cuda = "12.8",
                    .functions = {{"libcublas.so.12",
                                   {{"libcublas.so.12", {"cublasOne", "cublasThree", "cublasMore"}},
                                    {"OTHER", {"cublasTwo"}}}},
                                  {"libcuda.so.1", {{"", {"cuInit"}}}},
                                  {"libnvidia-ml.so.1", {}},
                                  {"libcurand.so.10", {}}}};
  CHECK(libraries.misfit(prebuilt, "12.4", all).empty());
  CHECK(libraries.misfit(prebuilt, "13.0", all) == "is for CUDA 12");

  auto& functions = prebuilt.functions["libcublas.so.12"];
  functions["libcublas.so.12"].erase("cublasThree");
  CHECK(libraries.misfit(prebuilt, "12.4", all) == "lacks cublasThree");
  functions["libcublas.so.12"].insert({"cublasTwo", "cublasThree"});
  functions.erase("OTHER");  // The version belongs to the import.
  CHECK(libraries.misfit(prebuilt, "12.4", all) == "lacks cublasTwo");
  prebuilt.functions.erase("libcublas.so.12");
  CHECK(libraries.misfit(prebuilt, "12.4", all) == "has no libcublas.so.12");
  CHECK(libraries
            .misfit(prebuilt, "12.4",
                    [](const auto& library) { return library.soname != "libcublas.so.12"; })
            .empty());
}

TEST_CASE("a damaged library's symbols are refused or read, never believed") {
  const PrivateFolder folder;
  const std::string whole = read_bytes(build_importer(folder.path()));
  const auto path = folder.path() / "damaged.so";
  int refused = 0;
  const auto read = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    try {
      const DynamicExports exports = find_exports(path, {"all", "cublasOne"});
      REQUIRE(exports.found.size() <= 2);
      for (const DynamicImport& symbol : read_dynamic_imports(path).symbols)
        REQUIRE(symbol.name.size() < bytes.size());
      for (const DynamicExport& symbol : read_dynamic_exports(path))
        REQUIRE(symbol.name.size() < bytes.size());
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
      CHECK_FALSE(error.remedy().empty());
      ++refused;
    }
  };
  for (std::size_t size = 1; size < whole.size(); size += 97) read(whole.substr(0, size));
  CHECK(refused > 0);
  // Most of the data that is read is at the start: headers, symbols, versions, names.
  std::mt19937 random(6);
  const std::size_t start = std::min<std::size_t>(whole.size(), 2048);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 4; ++i)
      damaged[random() % (round % 2 == 0 ? start : damaged.size())] = static_cast<char>(random());
    read(damaged);
  }
  read("no library at all, but long enough to hold the header of an ELF file, which has 64 bytes");
}
