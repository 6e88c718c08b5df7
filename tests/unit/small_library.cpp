#include "tests/unit/small_library.h"

#include <cstdlib>
#include <fstream>

#include <catch2/catch.hpp>

#include "platform/elf/module_symbols.h"
#include "platform/files/mapped_file.h"
#include "platform/process/child_process.h"

namespace optrace::test {

void run(std::vector<std::string> arguments) {
  const std::string program = arguments[0];
  INFO(program);
  ChildProcess child({.arguments = std::move(arguments)});
  REQUIRE(child.wait() == 0);
}

std::filesystem::path build_library(const std::filesystem::path& folder, std::string_view name,
                                    std::string_view source,
                                    const std::vector<std::string>& flags) {
  const std::filesystem::path input = folder / name;
  const std::filesystem::path output = folder / ("lib" + input.stem().string() + ".so");
  write_bytes(input, source);
  std::vector<std::string> arguments = {"g++", "-shared",       "-fPIC",       "-O2",
                                        "-o",  output.string(), input.string()};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  run(std::move(arguments));
  return output;
}

std::filesystem::path stripped_copy(const std::filesystem::path& library) {
  auto copy = library;
  copy.replace_filename(library.stem().string() + "-stripped.so");
  run({"strip", "-o", copy.string(), library.string()});
  return copy;
}

std::filesystem::path torch_libraries() {
  const char* python = std::getenv("OPTRACE_TEST_PYTHON");
  if (python == nullptr) {
    WARN("skipped: OPTRACE_TEST_PYTHON names no Python with torch");
    return {};
  }
  // The packages of <prefix>/bin/python are in <prefix>/lib/python3.*/site-packages.
  const auto prefix = std::filesystem::path(python).parent_path().parent_path();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(prefix / "lib", error)) {
    const auto folder = entry.path() / "site-packages" / "torch" / "lib";
    if (std::filesystem::is_regular_file(folder / "libtorch_cpu.so", error)) return folder;
  }
  FAIL("no torch beside the Python that OPTRACE_TEST_PYTHON names: " << python);
  return {};
}

std::uint64_t address_of(const ModuleSymbols& module, std::string_view symbol) {
  std::uint64_t found = 0;
  module.for_each_name([&](std::uint64_t address, std::string_view name) {
    if (name == symbol) found = address;
  });
  INFO(symbol);
  REQUIRE(found != 0);
  return found;
}

std::string read_bytes(const std::filesystem::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  // ext4 writes a file that is truncated and written again to disk when it is closed.
  std::filesystem::remove(path);
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  REQUIRE(file.good());
}

}  // namespace optrace::test
