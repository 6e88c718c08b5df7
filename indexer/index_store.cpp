#include "indexer/index_store.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "indexer/index_format.h"
#include "indexer/symbol_key.h"
#include "platform/error.h"
#include "platform/mapped_file.h"

namespace optrace {

using index_format::kBlockSize;
using index_format::kNamesPerBlock;
using index_format::SectionKind;

namespace {

constexpr const char* kRemedy =
    "`optrace source add DIR` makes it again from a PyTorch source tree.";

// `Foo.cpp` of `aten/Foo.cpp.AVX2.cpp`: ATen compiles a copy per CPU capability.
std::string_view source_name(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  for (const std::string_view capability :
       {".DEFAULT.cpp", ".AVX2.cpp", ".AVX512.cpp", ".VSX.cpp", ".ZVECTOR.cpp", ".SVE256.cpp"}) {
    if (name.ends_with(capability)) {
      name.remove_suffix(capability.size());
    }
  }
  return name;
}

}  // namespace

struct Index::State {
  explicit State(const std::filesystem::path& path);

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ExitStatus::usage, fmt::format("{}: {}", file.path().string(), what), kRemedy);
  }

  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint32_t count = 0;
  };

  // Bytes of the data, every block of them verified.
  std::span<const std::byte> data(std::uint64_t offset, std::uint64_t size) const;
  std::string_view text(const Part& part, std::uint64_t offset, std::uint64_t size) const;
  // The text at `offset` up to the NUL that ends it.
  std::string_view terminated(const Part& part, std::uint64_t offset) const;

  template <typename Number = std::uint32_t>
  Number number(const Part& part, std::uint64_t index) const {
    if (index >= part.size / sizeof(Number)) {
      fail("corrupt: a number lies outside its section");
    }
    Number value{};
    std::memcpy(&value, data(part.offset + index * sizeof(Number), sizeof(Number)).data(),
                sizeof(Number));
    return value;
  }

  // Where the name of that rank starts, in a section of names with `parts` texts each.
  std::uint64_t name_offset(const Part& names, const Part& blocks, std::uint64_t rank,
                            int parts) const;
  // The rank of the name, where it is one.
  std::optional<std::uint32_t> rank_of(const Part& names, const Part& blocks, std::string_view name,
                                       int parts) const;

  std::string_view symbol(std::uint32_t rank) const {
    return terminated(symbols, name_offset(symbols, symbol_blocks, rank, 1));
  }
  // First and one past the last definition of a symbol.
  std::pair<std::uint32_t, std::uint32_t> definitions_of(std::string_view canonical_symbol) const;
  std::optional<std::uint32_t> choose_definition(std::string_view canonical_symbol,
                                                 std::string_view source_file) const;
  Definition definition(std::uint32_t rank) const;
  OpEntry op(std::uint64_t offset, std::uint32_t rank) const;

  MappedFile file;
  std::span<const std::byte> checksums;
  std::uint64_t data_offset = 0;
  // Set once a block's checksum was found right. Only ever set, so the order does not matter.
  std::unique_ptr<std::atomic<bool>[]> verified;

  Part meta;
  Part files;
  Part symbols;
  Part symbol_blocks;
  Part definition_symbols;
  Part definition_files;
  Part definition_lines;
  Part definition_calls;
  Part call_callees;
  Part call_lines;
  Part op_names;
  Part op_blocks;
  Part op_lines;
  std::vector<std::string_view> file_names;
};

Index::State::State(const std::filesystem::path& path) : file(path) {
  const auto bytes = file.bytes();
  index_format::Header header{};
  if (bytes.size() < sizeof header ||
      std::memcmp(bytes.data(), index_format::kMagic, sizeof index_format::kMagic) != 0) {
    fail("not an optrace index");
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != index_format::kVersion) {
    fail(fmt::format("version {} of the index format; this optrace reads version {}",
                     header.version, index_format::kVersion));
  }
  if (header.file_size != bytes.size()) {
    fail(fmt::format("truncated: {} bytes of {}", bytes.size(), header.file_size));
  }
  const std::uint64_t table_size = header.section_count * sizeof(index_format::Section);
  const std::uint64_t room = bytes.size() - sizeof header;
  if (table_size > room || header.block_count > (room - table_size) / sizeof(std::uint64_t) ||
      header.data_offset !=
          sizeof header + table_size + header.block_count * sizeof(std::uint64_t) ||
      header.block_count != (header.file_size - header.data_offset + kBlockSize - 1) / kBlockSize) {
    fail("corrupt: its header contradicts itself");
  }
  const auto front = bytes.subspan(sizeof header, header.data_offset - sizeof header);
  if (XXH3_64bits(front.data(), front.size()) != header.checksum) {
    fail("corrupt: the checksum of its tables is wrong");
  }
  data_offset = header.data_offset;
  checksums = front.subspan(table_size);
  verified = std::make_unique<std::atomic<bool>[]>(header.block_count);

  const std::pair<SectionKind, Part*> wanted[] = {
      {SectionKind::meta, &meta},
      {SectionKind::files, &files},
      {SectionKind::symbols, &symbols},
      {SectionKind::symbol_blocks, &symbol_blocks},
      {SectionKind::definition_symbols, &definition_symbols},
      {SectionKind::definition_files, &definition_files},
      {SectionKind::definition_lines, &definition_lines},
      {SectionKind::definition_calls, &definition_calls},
      {SectionKind::call_callees, &call_callees},
      {SectionKind::call_lines, &call_lines},
      {SectionKind::ops, &op_names},
      {SectionKind::op_blocks, &op_blocks},
      {SectionKind::op_lines, &op_lines}};
  std::uint32_t found = 0;
  for (std::uint64_t at = 0; at < table_size; at += sizeof(index_format::Section)) {
    index_format::Section section{};
    std::memcpy(&section, front.data() + at, sizeof section);
    const std::uint64_t data_size = bytes.size() - data_offset;
    if (section.offset > data_size || section.size > data_size - section.offset) {
      fail("corrupt: a section lies outside the file");
    }
    for (const auto& [kind, part] : wanted) {
      if (kind == section.kind) {
        *part = {section.offset, section.size, section.count};
        found |= 1U << static_cast<std::uint32_t>(kind);
      }
    }
  }
  for (const auto& [kind, part] : wanted) {
    if ((found & (1U << static_cast<std::uint32_t>(kind))) == 0) {
      fail(fmt::format("corrupt: it has no section of kind {}", static_cast<std::uint32_t>(kind)));
    }
  }
  if (definition_symbols.size != definition_files.size ||
      definition_symbols.size != definition_lines.size ||
      definition_symbols.size + sizeof(std::uint32_t) != definition_calls.size ||
      call_callees.size != call_lines.size ||
      definition_symbols.size % sizeof(std::uint32_t) != 0) {
    fail("corrupt: its sections are of unequal length");
  }
  for (std::uint64_t at = 0; at < files.size;) {
    file_names.push_back(terminated(files, at));
    at += file_names.back().size() + 1;
  }
}

std::span<const std::byte> Index::State::data(std::uint64_t offset, std::uint64_t size) const {
  // Sections lie in the file (checked when opening) and callers stay in their section.
  const auto all = file.bytes().subspan(data_offset);
  for (std::uint64_t block = offset / kBlockSize; block * kBlockSize < offset + size; ++block) {
    if (verified[block].load(std::memory_order_relaxed)) {
      continue;
    }
    const auto bytes = all.subspan(
        block * kBlockSize, std::min<std::uint64_t>(kBlockSize, all.size() - block * kBlockSize));
    std::uint64_t expected = 0;
    std::memcpy(&expected, checksums.data() + block * sizeof expected, sizeof expected);
    if (XXH3_64bits(bytes.data(), bytes.size()) != expected) {
      fail(fmt::format("corrupt: the checksum of block {} is wrong", block));
    }
    verified[block].store(true, std::memory_order_relaxed);
  }
  return all.subspan(offset, size);
}

std::string_view Index::State::text(const Part& part, std::uint64_t offset,
                                    std::uint64_t size) const {
  if (offset > part.size || size > part.size - offset) {
    fail("corrupt: a name lies outside its section");
  }
  const auto bytes = data(part.offset + offset, size);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view Index::State::terminated(const Part& part, std::uint64_t offset) const {
  // In steps, so that looking for the end of one name verifies the blocks of no others.
  constexpr std::uint64_t kStep = 512;
  for (std::uint64_t at = offset; at < part.size; at += kStep) {
    const auto chunk = text(part, at, std::min(kStep, part.size - at));
    const auto end = chunk.find('\0');
    if (end != std::string_view::npos) {
      return text(part, offset, at + end - offset);
    }
  }
  fail("corrupt: a name lies outside its section");
}

std::uint64_t Index::State::name_offset(const Part& names, const Part& blocks, std::uint64_t rank,
                                        int parts) const {
  std::uint64_t offset = number(blocks, rank / kNamesPerBlock);
  for (std::uint64_t skip = (rank % kNamesPerBlock) * static_cast<std::uint64_t>(parts); skip > 0;
       --skip) {
    offset += terminated(names, offset).size() + 1;
  }
  return offset;
}

std::optional<std::uint32_t> Index::State::rank_of(const Part& names, const Part& blocks,
                                                   std::string_view name, int parts) const {
  std::uint64_t low = 0;
  std::uint64_t high = blocks.size / sizeof(std::uint32_t);
  while (low < high) {  // The first block whose first name is greater.
    const std::uint64_t middle = low + (high - low) / 2;
    if (terminated(names, number(blocks, middle)) <= name) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) {
    return std::nullopt;
  }
  std::uint64_t offset = number(blocks, low - 1);
  for (std::uint32_t in_block = 0; in_block < kNamesPerBlock && offset < names.size; ++in_block) {
    if (terminated(names, offset) == name) {
      return static_cast<std::uint32_t>((low - 1) * kNamesPerBlock + in_block);
    }
    for (int part = 0; part < parts; ++part) {
      offset += terminated(names, offset).size() + 1;
    }
  }
  return std::nullopt;
}

std::pair<std::uint32_t, std::uint32_t> Index::State::definitions_of(
    std::string_view canonical_symbol) const {
  const auto wanted = rank_of(symbols, symbol_blocks, canonical_symbol, 1);
  if (!wanted) {
    return {0, 0};
  }
  const auto count = static_cast<std::uint32_t>(definition_symbols.size / sizeof(std::uint32_t));
  std::uint32_t low = 0;
  std::uint32_t high = count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (number(definition_symbols, middle) < *wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  std::uint32_t end = low;
  while (end < count && number(definition_symbols, end) == *wanted) {
    ++end;
  }
  return {low, end};
}

std::optional<std::uint32_t> Index::State::choose_definition(std::string_view canonical_symbol,
                                                             std::string_view source_file) const {
  auto [first, end] = definitions_of(canonical_symbol);
  if (first == end) {
    const std::string key = function_key(canonical_symbol);
    std::tie(first, end) = key == canonical_symbol ? std::pair(0U, 0U) : definitions_of(key);
  }
  if (first == end) {
    return std::nullopt;
  }
  if (!source_file.empty()) {
    const std::string_view wanted = source_name(source_file);
    for (std::uint32_t rank = first; rank < end; ++rank) {
      if (source_name(definition(rank).location.file) == wanted) {
        return rank;
      }
    }
  }
  return first;
}

Definition Index::State::definition(std::uint32_t rank) const {
  const std::uint32_t file_number = number(definition_files, rank);
  if (file_number >= file_names.size()) {
    fail("corrupt: a definition lies in no file");
  }
  return {symbol(number(definition_symbols, rank)),
          {file_names[file_number], number(definition_lines, rank)}};
}

OpEntry Index::State::op(std::uint64_t offset, std::uint32_t rank) const {
  const std::string_view unambiguous = terminated(op_names, offset);
  return {terminated(op_names, offset + unambiguous.size() + 1),
          unambiguous,
          {index_format::kOpsFile, number(op_lines, rank)}};
}

Index::Index(std::unique_ptr<State> state) : state_(std::move(state)) {}
Index::~Index() = default;
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;

Index Index::open(const std::filesystem::path& path) {
  return Index(std::make_unique<State>(path));
}

std::string_view Index::note(std::string_view key) const {
  for (std::uint64_t at = 0; at < state_->meta.size;) {
    const auto name = state_->terminated(state_->meta, at);
    at += name.size() + 1;
    const auto value = state_->terminated(state_->meta, at);
    at += value.size() + 1;
    if (name == key) {
      return value;
    }
  }
  return {};
}

std::string_view Index::torch_version() const {
  return note("torch_version");
}

std::string_view Index::git_version() const {
  return note("git_version");
}

const std::filesystem::path& Index::path() const {
  return state_->file.path();
}

std::size_t Index::definition_count() const {
  return state_->definition_symbols.size / sizeof(std::uint32_t);
}

std::size_t Index::call_site_count() const {
  return state_->call_callees.size / sizeof(std::uint32_t);
}

std::optional<Definition> Index::find_definition(std::string_view canonical_symbol,
                                                 std::string_view source_file) const {
  const auto rank = state_->choose_definition(canonical_symbol, source_file);
  return rank ? std::optional(state_->definition(*rank)) : std::nullopt;
}

std::vector<Definition> Index::find_definitions(std::string_view canonical_symbol) const {
  std::vector<Definition> found;
  const auto [first, end] = state_->definitions_of(canonical_symbol);
  for (std::uint32_t rank = first; rank < end; ++rank) {
    found.push_back(state_->definition(rank));
  }
  return found;
}

std::vector<CallSite> Index::calls_of(std::string_view canonical_symbol,
                                      std::string_view source_file) const {
  std::vector<CallSite> calls;
  auto rank = state_->choose_definition(canonical_symbol, source_file);
  // A lambda that could not be told from its neighbours: the calls of all of them are its
  // function's.
  for (auto outer = enclosing_function(canonical_symbol); !rank && outer;
       outer = enclosing_function(*outer)) {
    rank = state_->choose_definition(*outer, source_file);
  }
  if (!rank) {
    return calls;
  }
  const Definition caller = state_->definition(*rank);
  const std::uint32_t end = state_->number(state_->definition_calls, *rank + 1U);
  for (std::uint32_t at = state_->number(state_->definition_calls, *rank); at < end; ++at) {
    const auto distance = state_->number<std::int32_t>(state_->call_lines, at);
    calls.push_back(
        {state_->symbol(state_->number(state_->call_callees, at)),
         {caller.location.file, caller.location.line + static_cast<std::uint32_t>(distance)}});
  }
  return calls;
}

std::optional<OpEntry> Index::find_op(std::string_view unambiguous_name) const {
  const auto rank = state_->rank_of(state_->op_names, state_->op_blocks, unambiguous_name, 2);
  if (!rank) {
    return std::nullopt;
  }
  return state_->op(state_->name_offset(state_->op_names, state_->op_blocks, *rank, 2), *rank);
}

std::vector<OpEntry> Index::ops() const {
  std::vector<OpEntry> entries;
  std::uint64_t offset = 0;
  for (std::uint32_t rank = 0; offset < state_->op_names.size; ++rank) {
    entries.push_back(state_->op(offset, rank));
    offset += entries.back().unambiguous_name.size() + entries.back().name.size() + 2;
  }
  return entries;
}

}  // namespace optrace
