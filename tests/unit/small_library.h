#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace optrace::test {

/// Compiles C++ (or, with a name that ends in .s, assembly) into a shared library with the compiler
/// that built the tests, and returns its path. `flags` come last. The test fails when it can't.
std::filesystem::path build_library(const std::filesystem::path& folder, std::string_view name,
                                    std::string_view source,
                                    const std::vector<std::string>& flags = {});

/// Runs `strip` (all symbols but the dynamic ones) on a copy of a library.
std::filesystem::path stripped_copy(const std::filesystem::path& library);

/// The folder with torch's libraries in the Python that $OPTRACE_TEST_PYTHON names; empty, with a
/// warning in the test's output, when there is none.
std::filesystem::path torch_libraries();

std::string read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, std::string_view bytes);

}  // namespace optrace::test
