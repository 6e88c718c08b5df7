#include "indexer/store/packed_index.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>
#include <lzma.h>

#include "indexer/store/index_writer.h"
#include "platform/cache_folders.h"
#include "platform/error.h"
#include "platform/private_folder.h"
#include "platform/whole_file.h"
#include "tests/unit/environment_variable.h"

using namespace optrace;
using optrace::test::EnvironmentVariable;

namespace {

/// Writes an index of a version, compressed.
std::filesystem::path make_packed(const PrivateFolder& folder) {
  const std::filesystem::path plain = folder.path() / "plain";
  IndexContents contents;
  contents.meta = {{"torch_version", "2.6.0"}};
  write_index(std::move(contents), plain);
  const std::string bytes = read_file(plain).value();
  std::string packed(lzma_stream_buffer_bound(bytes.size()), '\0');
  std::size_t size = 0;
  REQUIRE(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr,
                                  reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(),
                                  reinterpret_cast<std::uint8_t*>(packed.data()), &size,
                                  packed.size()) == LZMA_OK);
  packed.resize(size);
  const std::filesystem::path path = folder.path() / "torch-2.6.0.index.xz";
  write_file(path, packed);
  return path;
}

}  // namespace

TEST_CASE("a compressed index is decompressed once", "[index]") {
  const PrivateFolder folder;
  const std::filesystem::path cache = folder.path() / "cache";
  const EnvironmentVariable variable("OPTRACE_CACHE_DIR", cache.c_str());
  const std::filesystem::path packed = make_packed(folder);
  REQUIRE(is_packed_index(packed));
  const std::filesystem::path unpacked = open_packed_index(packed).path();
  CHECK(unpacked.parent_path() == cache / cache_folders::kIndexes);
  const auto written = std::filesystem::last_write_time(unpacked);
  CHECK(open_packed_index(packed).torch_version() == "2.6.0");
  CHECK(std::filesystem::last_write_time(unpacked) == written);

  SECTION("again if the copy is damaged") {
    write_file(unpacked, "damaged");
    CHECK(open_packed_index(packed).torch_version() == "2.6.0");
  }
  SECTION("again if the compressed file was replaced") {
    std::filesystem::last_write_time(packed, written + std::chrono::seconds(5));
    CHECK(open_packed_index(packed).path() != unpacked);
  }
}

TEST_CASE("a compressed index needs no cache", "[index]") {
  const PrivateFolder folder;
  write_file(folder.path() / "file", "no folder");
  const EnvironmentVariable variable("OPTRACE_CACHE_DIR", (folder.path() / "file").c_str());
  CHECK(open_packed_index(make_packed(folder)).torch_version() == "2.6.0");
}

TEST_CASE("a file that is no compressed index is refused", "[index]") {
  const PrivateFolder folder;
  const EnvironmentVariable variable("OPTRACE_CACHE_DIR", (folder.path() / "cache").c_str());
  const std::filesystem::path packed = make_packed(folder);
  const std::string whole = read_file(packed).value();
  for (const std::string& content :
       {std::string("text"), whole.substr(0, whole.size() / 2), whole.substr(0, 3)}) {
    write_file(packed, content);
    REQUIRE_THROWS_AS(open_packed_index(packed), Error);
  }
}
