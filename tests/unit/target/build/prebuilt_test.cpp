// Libraries that come with optrace: what they depend on, and how a package has them.
#include "target/build/prebuilt.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <sys/stat.h>

#include "platform/files/private_folder.h"
#include "tests/unit/small_library.h"

namespace optrace {
namespace {

using test::read_bytes;
using test::write_bytes;

/// Two prebuilt libraries of one kind.
struct Kind {
  Kind() {
    for (const char* const name : {"torch-1", "torch-2"}) {
      const auto library = folder.path() / "libagent.so";
      write_bytes(library, contents(name));
      Prebuilt prebuilt{.folder = path() / name, .source_key = "key", .imports = {"f"}};
      prebuilt.headers = {"c10/a.h", "b.h"};
      prebuilt.headers_hash = name;
      store_prebuilt(prebuilt, {library});
      std::filesystem::remove(library);
    }
  }

  static std::string contents(const std::string& name) {
    return std::string(5000, 'x') + name + std::string("\n0 7\n\0", 6);
  }
  std::filesystem::path path() const { return folder.path() / "agents"; }
  std::filesystem::path cache() const {
    std::filesystem::create_directory(folder.path() / "cache");
    return folder.path() / "cache";
  }

  PrivateFolder folder;
};

mode_t mode_of(const std::filesystem::path& path) {
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777U;
}

TEST_CASE("prebuilt libraries are described, for all users") {
  const Kind kind;
  const auto all = prebuilt_libraries(kind.path());
  REQUIRE(all.size() == 2);
  CHECK(all[0].folder == kind.path() / "torch-1");
  CHECK(all[1].source_key == "key");
  CHECK(all[1].libraries == std::vector<std::string>{"libagent.so"});
  CHECK(all[1].headers == std::vector<std::filesystem::path>{"c10/a.h", "b.h"});
  CHECK(all[1].headers_hash == "torch-2");
  CHECK(all[1].imports == std::vector<std::string>{"f"});
  CHECK(mode_of(all[0].folder / "prebuilt.json") == 0644);
  CHECK(mode_of(all[0].folder / "libagent.so") == 0644);
  const PrebuiltFiles files = files_of(all[0], {});
  CHECK(files.libraries == std::vector<std::filesystem::path>{all[0].folder / "libagent.so"});
  CHECK_FALSE(files.folder);
}

TEST_CASE("damaged descriptions and libraries are not used") {
  const Kind kind;
  write_bytes(kind.path() / "torch-1/libagent.so", "changed");
  write_bytes(kind.path() / "torch-2/prebuilt.json", "{\"libraries\": [1]}");
  std::filesystem::create_directory(kind.path() / "empty");
  const auto all = prebuilt_libraries(kind.path());
  REQUIRE(all.size() == 1);
  CHECK(files_of(all[0], kind.cache()).libraries.empty());
  CHECK(prebuilt_libraries(kind.folder.path() / "missing").empty());
}

TEST_CASE("a package's libraries are decompressed once, or for each run without a cache") {
  const Kind kind;
  pack_prebuilt(kind.path());
  CHECK_FALSE(std::filesystem::exists(kind.path() / "torch-1/libagent.so"));
  CHECK(mode_of(kind.path() / "libraries.zst") == 0644);
  const auto all = prebuilt_libraries(kind.path());
  REQUIRE(all.size() == 2);
  for (const Prebuilt& prebuilt : all) {
    const auto name = prebuilt.folder.filename().string();
    const PrebuiltFiles kept = files_of(prebuilt, kind.cache());
    REQUIRE(kept.libraries.size() == 1);
    CHECK(kept.libraries[0] == kind.cache() / prebuilt.libraries_hash / "libagent.so");
    CHECK(read_bytes(kept.libraries[0]) == Kind::contents(name));
    CHECK(mode_of(kept.libraries[0]) == 0600);
    const PrebuiltFiles once = files_of(prebuilt, {});
    REQUIRE(once.libraries.size() == 1);
    REQUIRE(once.folder);
    CHECK(once.libraries[0].parent_path() == once.folder->path());
    CHECK(read_bytes(once.libraries[0]) == Kind::contents(name));
  }
  // A damaged copy is replaced; without the package's file, there is none.
  const auto copy = kind.cache() / all[0].libraries_hash / "libagent.so";
  write_bytes(copy, "changed");
  CHECK(files_of(all[0], kind.cache()).libraries.size() == 1);
  CHECK(read_bytes(copy) == Kind::contents("torch-1"));
  const std::string pack = read_bytes(kind.path() / "libraries.zst");
  write_bytes(kind.path() / "libraries.zst", pack.substr(0, pack.size() / 2));
  CHECK(files_of(all[0], kind.cache()).libraries.size() == 1);
  CHECK(files_of(all[0], {}).libraries.empty());
}

TEST_CASE("the hash of headers covers names and contents, and needs all of them") {
  const PrivateFolder folder;
  write_bytes(folder.path() / "a.h", "1");
  write_bytes(folder.path() / "b.h", "2");
  const auto hash = [&](const std::vector<std::filesystem::path>& headers) {
    return HeaderHashes(folder.path()).of(headers);
  };
  const std::string both = hash({"a.h", "b.h"});
  CHECK(both.size() == 32);
  CHECK(both == hash({"a.h", "b.h"}));
  CHECK(both != hash({"a.h"}));
  CHECK(hash({"a.h", "missing.h"}).empty());
  write_bytes(folder.path() / "b.h", "3");
  CHECK(both != hash({"a.h", "b.h"}));
}

}  // namespace
}  // namespace optrace
