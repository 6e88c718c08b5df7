#include "indexer/frontend/unit_cache.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"

using namespace optrace;

namespace {

/// A source with a header, and a cache.
class Kept {
 public:
  Kept() {
    write("a.cpp", "int a;");
    write("a.h", "int h;");
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  /// Finds a unit as in a new run of the command: hashes of files are computed again.
  std::optional<CachedUnit> find(std::uint64_t identity = 7) const {
    FileHashes hashes;
    return UnitCache(folder_.path() / "cache", hashes).find("a.cpp", identity);
  }
  CachedUnit keep(std::uint64_t identity = 7) const {
    FileHashes hashes;
    return UnitCache(folder_.path() / "cache", hashes)
        .keep("a.cpp", identity, path("a.cpp"),
              "F\tf\ta.cpp\t1\t0\nD\t" + path("a.h") + "\nC\tg\t2\t0\n");
  }
  std::filesystem::path entry() const {
    return std::filesystem::directory_iterator(folder_.path() / "cache")->path();
  }

 private:
  PrivateFolder folder_;
};

}  // namespace

TEST_CASE("unit cache: what was kept comes back as long as nothing changed") {
  const Kept kept;
  CHECK_FALSE(kept.find());
  const CachedUnit now = kept.keep();
  CHECK(now.findings() == "F\tf\ta.cpp\t1\t0\nC\tg\t2\t0\n");
  const auto then = kept.find();
  REQUIRE(then);
  CHECK(then->findings() == now.findings());
  CHECK(then->digest() == now.digest());
}

TEST_CASE("unit cache: another identity, source or header is another result") {
  const Kept kept;
  const auto digest = kept.keep().digest();
  CHECK_FALSE(kept.find(8));
  for (const char* name : {"a.cpp", "a.h"}) {
    const std::string text = read_file(kept.path(name)).value_or("");
    kept.write(name, "changed");
    CHECK_FALSE(kept.find());
    CHECK(kept.keep().digest() != digest);
    kept.write(name, text);
    CHECK_FALSE(kept.find());
    CHECK(kept.keep().digest() == digest);
    REQUIRE(kept.find());
  }
  std::filesystem::remove(kept.path("a.h"));
  CHECK_FALSE(kept.find());
}

TEST_CASE("unit cache: a file that was written while it may have been read is not believed") {
  const Kept kept;
  FileHashes hashes;
  const auto later = std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5);
  std::filesystem::last_write_time(kept.path("a.h"), later);
  CHECK(hashes.of(kept.path("a.h")) == 0);
  CHECK(hashes.of(kept.path("a.cpp")) != 0);
  CHECK(hashes.of(kept.path("absent")) == 0);
  kept.keep();
  std::filesystem::last_write_time(kept.path("a.h"), later - std::chrono::hours(1));
  CHECK_FALSE(kept.find());
}

TEST_CASE("unit cache: a broken entry is none") {
  const Kept kept;
  kept.keep();
  const std::string whole = read_file(kept.entry()).value_or("");
  REQUIRE(whole.size() > 40);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    std::ofstream(kept.entry()) << broken;
    REQUIRE_FALSE(kept.find());
    std::ofstream(kept.entry()) << whole.substr(0, at);
    REQUIRE_FALSE(kept.find());
  }
  std::ofstream(kept.entry()) << whole;
  CHECK(kept.find());
}

TEST_CASE("unit cache: a touched file is the same, but known to be touched") {
  const Kept kept;
  kept.keep();
  const auto before = kept.find();
  REQUIRE(before);
  std::filesystem::last_write_time(
      kept.path("a.h"), std::filesystem::last_write_time(kept.path("a.h")) - std::chrono::hours(1));
  const auto after = kept.find();
  REQUIRE(after);
  CHECK(after->digest() == before->digest());
  CHECK(after->times() != before->times());
}
