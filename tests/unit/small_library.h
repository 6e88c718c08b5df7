#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {
class ModuleSymbols;
}

namespace optrace::test {

/// Runs a program. If it fails, the test fails.
void run(std::vector<std::string> arguments);

/// Compiles C++ (or assembly, if the name ends in .s) into a shared library with the compiler that
/// built the tests, and returns its path. `flags` come last. If that fails, the test fails.
std::filesystem::path build_library(const std::filesystem::path& folder, std::string_view name,
                                    std::string_view source,
                                    const std::vector<std::string>& flags = {});

/// Copies a library, strips all symbols but the dynamic ones, and returns the path of the copy.
std::filesystem::path stripped_copy(const std::filesystem::path& library);

/// Returns the folder of torch's libraries for the Python in $OPTRACE_TEST_PYTHON. If there is
/// none, returns an empty path and prints a warning in the test's output.
std::filesystem::path torch_libraries();

/// Returns the address of a symbol. If the library has none, the test fails.
std::uint64_t address_of(const ModuleSymbols& module, std::string_view symbol);

std::string read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, std::string_view bytes);

}  // namespace optrace::test
