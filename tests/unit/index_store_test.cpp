#include "indexer/index_store.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include <catch2/catch.hpp>
#include <xxhash.h>

#include "indexer/index_format.h"
#include "indexer/index_writer.h"
#include "platform/error.h"
#include "platform/private_folder.h"

using namespace optrace;

namespace {

IndexContents sample() {
  IndexContents contents;
  contents.meta = {{"torch_version", "2.6.0"}, {"git_version", std::string(40, 'a')}};
  contents.functions = {
      {"_ZN2at6native6conv2dEv",
       "aten/src/ATen/native/Convolution.cpp",
       984,
       {{"_ZN2at11convolutionEv", 990}, {"_ZN2at6squeezeEv", 987}, {"_ZN2at6squeezeEv", 987}}},
      {"_ZN2at6native12_GLOBAL__N_13addEv", "aten/src/ATen/native/B.cpp", 20, {{"sgemm_", 21}}},
      {"_ZN2at6native12_GLOBAL__N_13addEv", "aten/src/ATen/native/A.cpp", 10, {{"dgemm_", 11}}},
  };
  // More than one block of names.
  for (int number = 0; number < 100; ++number) {
    contents.functions.push_back({"_Z1f" + std::to_string(number),
                                  "c10/core/F.cpp",
                                  static_cast<std::uint32_t>(number + 1),
                                  {}});
    contents.ops.push_back({"aten::f.o" + std::to_string(number), "f_o" + std::to_string(number),
                            static_cast<std::uint32_t>(number + 1)});
  }
  return contents;
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string what_opening_says(const std::filesystem::path& path) {
  try {
    (void)Index::open(path);
  } catch (const Error& error) {
    CHECK(error.status() == ExitStatus::usage);
    CHECK(error.remedy().find("optrace source add") != std::string::npos);
    return error.what();
  }
  return "";
}

/// Everything that an index can be asked.
std::string ask_everything(const Index& index) {
  std::string answers(index.torch_version());
  answers += index.git_version();
  const IndexContents expected = sample();
  for (const auto& function : expected.functions) {
    for (const auto& definition : index.find_definitions(function.symbol)) {
      answers += std::string(definition.symbol) + std::string(definition.location.file) +
                 std::to_string(definition.location.line);
    }
    for (const auto& call : index.calls_of(function.symbol)) {
      answers += std::string(call.callee) + std::to_string(call.location.line);
    }
  }
  for (const auto& op : index.ops()) {
    answers += std::string(op.name) + std::string(op.unambiguous_name);
    if (const auto found = index.find_op(op.unambiguous_name)) {
      answers += std::to_string(found->location.line);
    }
  }
  return answers;
}

/// Makes the checksums of a changed index right again, as somebody who means harm would.
void seal(std::string& bytes) {
  index_format::Header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t checksums =
      sizeof header + header.section_count * sizeof(index_format::Section);
  if (header.data_offset > bytes.size() || checksums > header.data_offset) {
    return;
  }
  for (std::size_t block = 0; checksums + (block + 1) * 8 <= header.data_offset; ++block) {
    const std::size_t at = header.data_offset + block * index_format::kBlockSize;
    const std::size_t size =
        std::min<std::size_t>(index_format::kBlockSize, bytes.size() - std::min(at, bytes.size()));
    const std::uint64_t checksum = XXH3_64bits(bytes.data() + at, size);
    std::memcpy(bytes.data() + checksums + block * 8, &checksum, sizeof checksum);
  }
  header.checksum = XXH3_64bits(bytes.data() + sizeof header, header.data_offset - sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
}

}  // namespace

TEST_CASE("an index gives back what was written") {
  const PrivateFolder folder;
  const auto path = folder.path() / "torch-2.6.0.index";
  write_index(sample(), path);
  const Index index = Index::open(path);
  CHECK(index.torch_version() == "2.6.0");
  CHECK(index.git_version() == std::string(40, 'a'));
  CHECK(index.note("absent").empty());
  CHECK(index.definition_count() == 103);
  CHECK(index.call_site_count() == 4);

  const auto conv2d = index.find_definition("_ZN2at6native6conv2dEv");
  REQUIRE(conv2d);
  CHECK(conv2d->location.file == "aten/src/ATen/native/Convolution.cpp");
  CHECK(conv2d->location.line == 984);
  const auto calls = index.calls_of("_ZN2at6native6conv2dEv");
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].callee == "_ZN2at6squeezeEv");
  CHECK(calls[0].location.line == 987);
  CHECK(calls[1].callee == "_ZN2at11convolutionEv");
  CHECK(calls[1].location.file == "aten/src/ATen/native/Convolution.cpp");

  for (int number = 0; number < 100; ++number) {
    const auto found = index.find_definition("_Z1f" + std::to_string(number));
    REQUIRE(found);
    CHECK(found->location.line == static_cast<std::uint32_t>(number + 1));
    const auto op = index.find_op("f_o" + std::to_string(number));
    REQUIRE(op);
    CHECK(op->name == "aten::f.o" + std::to_string(number));
    CHECK(op->location.line == static_cast<std::uint32_t>(number + 1));
  }
  CHECK(index.ops().size() == 100);
  for (const char* absent : {"", "_Z1f", "_Z1f100", "_ZN2at", "~", "sgemm_"}) {
    CHECK_FALSE(index.find_definition(absent));
    CHECK(index.calls_of(absent).empty());
    CHECK_FALSE(index.find_op(absent));
  }
}

TEST_CASE("functions that share a symbol are told apart by their source file") {
  const PrivateFolder folder;
  const auto path = folder.path() / "index";
  write_index(sample(), path);
  const Index index = Index::open(path);
  const std::string symbol = "_ZN2at6native12_GLOBAL__N_13addEv";
  CHECK(index.find_definitions(symbol).size() == 2);
  CHECK(index.find_definition(symbol)->location.line == 10);
  CHECK(index.find_definition(symbol, "B.cpp")->location.line == 20);
  CHECK(index.find_definition(symbol, "B.cpp.AVX2.cpp")->location.line == 20);
  CHECK(index.find_definition(symbol, "C.cpp")->location.line == 10);
  CHECK(index.calls_of(symbol, "B.cpp").at(0).callee == "sgemm_");
}

TEST_CASE("the same contents give the same bytes, whatever their order") {
  const PrivateFolder folder;
  IndexContents contents = sample();
  write_index(contents, folder.path() / "one");
  std::reverse(contents.functions.begin(), contents.functions.end());
  std::reverse(contents.ops.begin(), contents.ops.end());
  contents.functions.push_back(contents.functions.back());
  write_index(contents, folder.path() / "two");
  CHECK(bytes_of(folder.path() / "one") == bytes_of(folder.path() / "two"));
}

TEST_CASE("an empty index is an index") {
  const PrivateFolder folder;
  write_index({}, folder.path() / "empty");
  const Index index = Index::open(folder.path() / "empty");
  CHECK(index.definition_count() == 0);
  CHECK(index.torch_version().empty());
  CHECK_FALSE(index.find_definition("_Z1fv"));
}

TEST_CASE("what is no index, of another version, or cut short is refused by name") {
  const PrivateFolder folder;
  const auto path = folder.path() / "index";
  write_index(sample(), path);
  const std::string whole = bytes_of(path);

  write_bytes(path, "x");
  CHECK(what_opening_says(path).find("not an optrace index") != std::string::npos);
  std::string bytes = whole;
  bytes[8] = 77;
  write_bytes(path, bytes);
  CHECK(what_opening_says(path).find("version 77") != std::string::npos);
  write_bytes(path, whole.substr(0, whole.size() - 1));
  CHECK(what_opening_says(path).find("truncated") != std::string::npos);
  bytes = whole;
  bytes[60] = static_cast<char>(bytes[60] ^ 1);
  write_bytes(path, bytes);
  CHECK(what_opening_says(path).find("corrupt") != std::string::npos);
}

TEST_CASE("a reader skips sections of a kind that it does not know") {
  const PrivateFolder folder;
  const auto path = folder.path() / "index";
  write_index(sample(), path);
  const std::string answers = ask_everything(Index::open(path));
  // The same file with one more entry, of an unknown kind, in its section table.
  std::string bytes = bytes_of(path);
  index_format::Header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  index_format::Section unknown{};
  unknown.kind = static_cast<index_format::SectionKind>(4000);
  unknown.size = 8;
  bytes.insert(sizeof header, std::string(reinterpret_cast<const char*>(&unknown), sizeof unknown));
  header.section_count += 1;
  header.data_offset += sizeof unknown;
  header.file_size += sizeof unknown;
  std::memcpy(bytes.data(), &header, sizeof header);
  seal(bytes);
  write_bytes(path, bytes);
  CHECK(ask_everything(Index::open(path)) == answers);
}

TEST_CASE("a damaged index gives the right answer or an error, never another answer") {
  const PrivateFolder folder;
  const auto path = folder.path() / "index";
  write_index(sample(), path);
  const std::string whole = bytes_of(path);
  const std::string answers = ask_everything(Index::open(path));
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = whole;
    if (round % 4 == 0) {
      bytes.resize(random() % bytes.size());
    }
    for (auto flips = 1 + random() % 3; flips > 0 && !bytes.empty(); --flips) {
      auto& byte = bytes[random() % bytes.size()];
      byte = static_cast<char>(byte ^ (1 << random() % 8));
    }
    write_bytes(path, bytes);
    try {
      const std::string given = ask_everything(Index::open(path));
      CHECK(given == answers);
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 1900);
}

TEST_CASE("an index that lies under right checksums is read within its bounds") {
  const PrivateFolder folder;
  const auto path = folder.path() / "index";
  write_index(sample(), path);
  const std::string whole = bytes_of(path);
  std::mt19937 random(4);
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = whole;
    for (auto changes = 1 + random() % 8; changes > 0; --changes) {
      // Mostly in the tables, where a number decides what is read next.
      const std::size_t at =
          8 + random() % (round % 2 == 0 ? std::min<std::size_t>(600, bytes.size() - 8)
                                         : bytes.size() - 8);
      bytes[at] = static_cast<char>(random());
    }
    seal(bytes);
    write_bytes(path, bytes);
    try {
      (void)ask_everything(Index::open(path));
    } catch (const Error&) {
    }
  }
}
