// Indexes. Version and checksums are corrected here, so that the fuzzer gets past them.
#include <xxhash.h>

#include "indexer/store/index_format.h"
#include "indexer/store/index_store.h"
#include "indexer/store/op_facts.h"
#include "tests/fuzz/fuzz_input.h"

using namespace optrace;

namespace {

std::string sealed_index(std::string bytes) {
  index_format::Header header{};
  if (bytes.size() < sizeof header) return bytes;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.version = index_format::kVersion;
  header.file_size = bytes.size();
  const std::uint64_t tables =
      sizeof header + std::uint64_t{header.section_count} * sizeof(index_format::Section);
  if (header.data_offset <= bytes.size() && tables <= header.data_offset &&
      header.block_count <= (header.data_offset - tables) / sizeof(std::uint64_t)) {
    for (std::uint64_t block = 0; block < header.block_count; ++block) {
      const std::string_view data = std::string_view(bytes).substr(header.data_offset);
      const std::string_view part =
          data.substr(std::min<std::uint64_t>(block * index_format::kBlockSize, data.size()),
                      index_format::kBlockSize);
      const std::uint64_t sum = XXH3_64bits(part.data(), part.size());
      std::memcpy(bytes.data() + tables + block * sizeof sum, &sum, sizeof sum);
    }
    header.checksum = XXH3_64bits(bytes.data() + sizeof header, header.data_offset - sizeof header);
  }
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

void read_all(const Index& index) {
  fuzz::use_text(index.torch_version());
  fuzz::use_text(index.git_version());
  std::size_t left = 32;
  index.each_definition([&](const Definition& definition) {
    if (left == 0) return;
    --left;
    fuzz::use(index.find_definition(definition.symbol));
    fuzz::use(index.calls_of(definition.symbol));
    fuzz::use(index.callers_of(definition.symbol));
  });
  index.each_symbol_with("at", [](std::string_view symbol) {
    fuzz::use_text(symbol);
    return true;
  });
  fuzz::use(index.find_definitions_with("3add", 10));
  for (const OpEntry& op : index.ops()) {
    fuzz::use(index.find_op(op.name));
    fuzz::refuses_or_reads([&] { fuzz::use(index.facts_of(op)); });
    fuzz::use(index.registrations_of(op.name));
  }
  fuzz::use(index.registrations());
  for (const PythonName& name : index.python_names()) fuzz::use(index.find_python_name(name.name));
}

}  // namespace

OPTRACE_READER(index) {
  const fuzz::InputFile file(sealed_index(std::string(fuzz::Input(data, size).rest())));
  fuzz::refuses_or_reads([&] { read_all(Index::open(file.path())); });
  return 0;
}
