#include "indexer/store/packed_index.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/core.h>
#include <lzma.h>

#include "indexer/store/index_writer.h"
#include "platform/error.h"
#include "platform/files/cache_folders.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"
#include "tests/unit/environment_variable.h"

using namespace optrace;
using optrace::test::EnvironmentVariable;

namespace {

std::string index_of(const PrivateFolder& folder, const char* version) {
  const std::filesystem::path plain = folder.path() / "plain";
  IndexContents contents;
  contents.meta = {{"torch_version", version}};
  write_index(std::move(contents), plain);
  return read_file(plain).value();
}

struct Packed {
  std::filesystem::path stream;
  std::filesystem::path older;
  std::filesystem::path newer;
};

/// Writes the indexes of two versions, compressed.
Packed make_packed(const PrivateFolder& folder) {
  const std::string first = index_of(folder, "2.6.0");
  const std::string second = index_of(folder, "2.15.0");
  const std::string bytes = first + second;
  std::string packed(lzma_stream_buffer_bound(bytes.size()), '\0');
  std::size_t size = 0;
  REQUIRE(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr,
                                  reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(),
                                  reinterpret_cast<std::uint8_t*>(packed.data()), &size,
                                  packed.size()) == LZMA_OK);
  packed.resize(size);
  Packed made{folder.path() / "indexes.xz", folder.path() / "torch-2.6.0.index.part",
              folder.path() / "torch-2.15.0.index.part"};
  write_file(made.stream, packed);
  write_file(made.older, fmt::format("indexes.xz 0 {}\n", first.size()));
  write_file(made.newer, fmt::format("indexes.xz {} {}\n", first.size(), second.size()));
  return made;
}

}  // namespace

TEST_CASE("a compressed index is decompressed once", "[index]") {
  const PrivateFolder folder;
  const std::filesystem::path cache = folder.path() / "cache";
  const EnvironmentVariable variable("OPTRACE_CACHE_DIR", cache.c_str());
  const auto [stream, packed, newer] = make_packed(folder);
  REQUIRE(is_packed_index(packed));
  const std::filesystem::path unpacked = open_packed_index(packed).path();
  CHECK(unpacked.parent_path() == cache / cache_folders::kIndexes);
  const auto written = std::filesystem::last_write_time(unpacked);
  CHECK(open_packed_index(packed).torch_version() == "2.6.0");
  CHECK(std::filesystem::last_write_time(unpacked) == written);
  CHECK(open_packed_index(newer).torch_version() == "2.15.0");
  CHECK(open_packed_index(newer).path() != unpacked);

  SECTION("again if the copy is damaged") {
    write_file(unpacked, "damaged");
    CHECK(open_packed_index(packed).torch_version() == "2.6.0");
  }
  SECTION("again if the compressed file was replaced") {
    std::filesystem::last_write_time(stream, written + std::chrono::seconds(5));
    CHECK(open_packed_index(packed).path() != unpacked);
  }
}

TEST_CASE("a compressed index needs no cache", "[index]") {
  const PrivateFolder folder;
  write_file(folder.path() / "file", "no folder");
  const EnvironmentVariable variable("OPTRACE_CACHE_DIR", (folder.path() / "file").c_str());
  const Packed packed = make_packed(folder);
  CHECK(open_packed_index(packed.older).torch_version() == "2.6.0");
  CHECK(open_packed_index(packed.newer).torch_version() == "2.15.0");
}

TEST_CASE("a file that is no compressed index is refused", "[index]") {
  const PrivateFolder folder;
  const EnvironmentVariable variable("OPTRACE_CACHE_DIR", (folder.path() / "cache").c_str());
  const Packed packed = make_packed(folder);
  const std::string whole = read_file(packed.stream).value();
  for (const char* const place :
       {"", "indexes.xz", "indexes.xz 0", "indexes.xz -1 8", "indexes.xz 0 99999999",
        "indexes.xz 99999999999999999999 8", "nothing.xz 0 8", "indexes.xz 8 8"}) {
    write_file(packed.older, place);
    REQUIRE_THROWS_AS(open_packed_index(packed.older), Error);
  }
  for (const std::string& content :
       {std::string("text"), whole.substr(0, whole.size() / 2), whole.substr(0, 3)}) {
    write_file(packed.stream, content);
    REQUIRE_THROWS_AS(open_packed_index(packed.newer), Error);
  }
}
