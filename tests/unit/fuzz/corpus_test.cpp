// Runs every reader of hostile input on the initial inputs of its fuzzer and on inputs that once
// broke it (tests/fuzz/corpus). A crash ends the test; AddressSanitizer reports the place.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#define READER(name) extern "C" int fuzz_##name(const std::uint8_t* data, std::size_t size);
OPTRACE_FUZZ_READERS
#undef READER

namespace {

using Reader = int (*)(const std::uint8_t*, std::size_t);

const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> all = {
#define READER(name) {#name, fuzz_##name},
      OPTRACE_FUZZ_READERS
#undef READER
  };
  return all;
}

}  // namespace

TEST_CASE("every reader stands what its fuzzer has found", "[fuzz]") {
  for (const auto& [name, read] : readers()) {
    const std::filesystem::path folder = std::filesystem::path(OPTRACE_FUZZ_CORPUS) / name;
    REQUIRE(std::filesystem::is_directory(folder));
    CHECK(read(nullptr, 0) == 0);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      INFO(entry.path());
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(file), {});
      CHECK(read(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()) == 0);
      // The same input, truncated.
      CHECK(read(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size() / 2) == 0);
    }
  }
}
