#include "platform/files/file_trust.h"

#include <cstddef>
#include <string>

#include <catch2/catch.hpp>

#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"

using namespace optrace;

TEST_CASE("a hash is of the content, less the part that is left out", "[file_trust]") {
  const PrivateFolder folder;
  const auto hash_of = [&](const std::string& content, const FilePart& left_out) {
    write_file(folder.path() / "file", content);
    return content_hash(folder.path() / "file", left_out);
  };
  // Longer than what is read at once.
  std::string content(3'000'000, 'a');
  for (std::size_t i = 0; i < content.size(); i += 1000) content[i] = static_cast<char>(i / 1000);
  const auto whole = hash_of(content, {});
  REQUIRE(whole);
  CHECK(whole->size() == 32);
  for (const FilePart& part : {FilePart{0, 5}, FilePart{7, 2'000'000}, FilePart{1'048'576, 1},
                               FilePart{2'999'000, 1000}, FilePart{0, 3'000'000}}) {
    std::string rest = content;
    rest.erase(part.offset, part.size);
    const auto hash = hash_of(content, part);
    CHECK(hash != whole);
    CHECK(hash == hash_of(rest, {}));
    std::string changed = content;
    changed[part.offset] ^= 1;
    CHECK(hash == hash_of(changed, part));
  }
  CHECK_FALSE(content_hash(folder.path()));
  CHECK_FALSE(content_hash(folder.path() / "none"));
}
