#include "indexer/store/index_sections.h"

#include <algorithm>

#include <fmt/core.h>
#include <xxhash.h>

#include "platform/error.h"

namespace optrace {

using namespace index_format;

namespace {

constexpr const char* kRemedy =
    "`optrace source add DIR` creates it again from a PyTorch source tree.";
constexpr const char* kUnequal = "corrupt: its sections are of unequal length";

}  // namespace

void IndexSections::fail(const std::string& what) const {
  throw Error(ExitStatus::usage, fmt::format("{}: {}", path().string(), what), kRemedy);
}

IndexSections::IndexSections(const std::filesystem::path& path) : file_(path) {
  const Header header = read_header();
  const std::uint64_t table_size = header.section_count * sizeof(Section);
  const auto front = file_.bytes().subspan(sizeof header, header.data_offset - sizeof header);
  if (XXH3_64bits(front.data(), front.size()) != header.checksum)
    fail("corrupt: the checksum of its tables is wrong");
  data_offset_ = header.data_offset;
  checksums_ = front.subspan(table_size);
  verified_ = std::make_unique<std::atomic<bool>[]>(header.block_count);
  read_section_table(front.first(table_size));
  check_tables();
}

Header IndexSections::read_header() const {
  const auto bytes = file_.bytes();
  Header header{};
  if (bytes.size() < sizeof header || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    fail("not an optrace index");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion) {
    fail(fmt::format("it has version {} of the index format; this optrace reads version {}",
                     header.version, kVersion));
  }
  if (header.file_size != bytes.size())
    fail(fmt::format("truncated: {} bytes of {}", bytes.size(), header.file_size));
  const std::uint64_t table_size = header.section_count * sizeof(Section);
  const std::uint64_t room = bytes.size() - sizeof header;
  if (table_size > room || header.block_count > (room - table_size) / sizeof(std::uint64_t) ||
      header.data_offset !=
          sizeof header + table_size + header.block_count * sizeof(std::uint64_t) ||
      header.block_count != (header.file_size - header.data_offset + kBlockSize - 1) / kBlockSize) {
    fail("corrupt: its header contradicts itself");
  }
  return header;
}

void IndexSections::read_section_table(std::span<const std::byte> table) {
  const std::uint64_t data_size = file_.bytes().size() - data_offset_;
  std::array<bool, kSectionKinds> found{};
  for (; !table.empty(); table = table.subspan(sizeof(Section))) {
    Section section{};
    std::memcpy(&section, table.data(), sizeof section);
    if (section.offset > data_size || section.size > data_size - section.offset)
      fail("corrupt: a section lies outside the file");
    const auto kind = static_cast<std::size_t>(section.kind);
    if (kind >= kSectionKinds) continue;
    parts_[kind] = {section.offset, section.size};
    found[kind] = true;
  }
  for (auto kind = static_cast<std::size_t>(kFirstRequired);
       kind <= static_cast<std::size_t>(kLastRequired); ++kind) {
    if (!found[kind]) fail(fmt::format("corrupt: it has no section of kind {}", kind));
  }
}

void IndexSections::check_tables() const {
  const auto definitions = checked_count<DefinitionRow>();
  const auto calls = checked_count<CallRow>();
  const auto registrations = checked_count<RegistrationRow>();
  checked_count<PythonNameRow>();
  checked_count<AnchorRow>();
  const auto is_none_or = [](std::uint64_t rows, std::uint64_t all) {
    return rows == 0 || rows == all;
  };
  if (checked_count<OpFactsRow>() != checked_count<OpRow>() ||
      !is_none_or(checked_count<DefinitionBounds>(), definitions) ||
      !is_none_or(checked_count<CallBounds>(), calls) ||
      !is_none_or(checked_count<RegistrationBounds>(), registrations) ||
      !is_none_or(checked_count<ResultRow>(), definitions)) {
    fail(kUnequal);
  }
}

// Returns the number of rows of a table whose columns are equally long.
template <typename Row>
std::uint64_t IndexSections::checked_count() const {
  std::uint64_t rows = 0;
  bool is_first = true;
  const Row none;
  each_column(none, [&]<typename Field>(SectionKind kind, const Field&) {
    const std::uint64_t ends = kind == SectionKind::definition_calls ? 1 : 0;
    const std::uint64_t entries = size(kind) / sizeof(Field);
    if (size(kind) % sizeof(Field) != 0 || entries < ends || (!is_first && entries - ends != rows))
      fail(kUnequal);
    rows = entries - ends;
    is_first = false;
  });
  return rows;
}

std::span<const std::byte> IndexSections::data(std::uint64_t offset, std::uint64_t size) const {
  // Sections lie in the file (checked by the constructor), and callers stay in their section.
  const auto all = file_.bytes().subspan(data_offset_);
  for (std::uint64_t block = offset / kBlockSize; block * kBlockSize < offset + size; ++block) {
    if (verified_[block].load(std::memory_order_relaxed)) continue;
    const auto bytes = all.subspan(
        block * kBlockSize, std::min<std::uint64_t>(kBlockSize, all.size() - block * kBlockSize));
    std::uint64_t expected = 0;
    std::memcpy(&expected, checksums_.data() + block * sizeof expected, sizeof expected);
    if (XXH3_64bits(bytes.data(), bytes.size()) != expected)
      fail(fmt::format("corrupt: the checksum of block {} is wrong", block));
    verified_[block].store(true, std::memory_order_relaxed);
  }
  return all.subspan(offset, size);
}

std::span<const std::byte> IndexSections::bytes(SectionKind kind) const {
  const Part& part = parts_[static_cast<std::size_t>(kind)];
  return data(part.offset, part.size);
}

std::string_view IndexSections::text(SectionKind kind, std::uint64_t offset,
                                     std::uint64_t size) const {
  const Part& part = parts_[static_cast<std::size_t>(kind)];
  if (offset > part.size || size > part.size - offset)
    fail("corrupt: a name lies outside its section");
  const auto bytes = data(part.offset + offset, size);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view IndexSections::terminated(SectionKind kind, std::uint64_t offset) const {
  // Searches in steps, so that looking for the end of one name does not verify unrelated blocks.
  constexpr std::uint64_t kStep = 512;
  const std::uint64_t section_size = size(kind);
  for (std::uint64_t at = offset; at < section_size; at += kStep) {
    const auto chunk = text(kind, at, std::min(kStep, section_size - at));
    const auto end = chunk.find('\0');
    if (end != std::string_view::npos) return text(kind, offset, at + end - offset);
  }
  fail("corrupt: a name lies outside its section");
}

std::vector<std::string_view> IndexSections::all_terminated(SectionKind kind) const {
  std::vector<std::string_view> all;
  for (std::uint64_t at = 0; at < size(kind); at += all.back().size() + 1)
    all.push_back(terminated(kind, at));
  return all;
}

std::uint64_t IndexSections::name_offset(const NameTable& table, std::uint64_t rank) const {
  std::uint64_t offset = number(table.blocks, rank / kNamesPerBlock);
  for (std::uint64_t skip = (rank % kNamesPerBlock) * static_cast<std::uint64_t>(table.parts);
       skip > 0; --skip) {
    offset += terminated(table.names, offset).size() + 1;
  }
  return offset;
}

std::optional<std::uint32_t> IndexSections::rank_of(const NameTable& table,
                                                    std::string_view name) const {
  std::uint64_t low = 0;
  std::uint64_t high = size(table.blocks) / sizeof(std::uint32_t);
  while (low < high) {  // Finds the first block whose first name is greater.
    const std::uint64_t middle = low + (high - low) / 2;
    if (terminated(table.names, number(table.blocks, middle)) <= name)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0) return std::nullopt;
  std::uint64_t offset = number(table.blocks, low - 1);
  for (std::uint32_t in_block = 0; in_block < kNamesPerBlock && offset < size(table.names);
       ++in_block) {
    if (terminated(table.names, offset) == name)
      return static_cast<std::uint32_t>((low - 1) * kNamesPerBlock + in_block);
    for (int part = 0; part < table.parts; ++part)
      offset += terminated(table.names, offset).size() + 1;
  }
  return std::nullopt;
}

std::uint32_t IndexSections::rank_at(const NameTable& table, std::uint64_t offset) const {
  const std::uint64_t block =
      upper_bound(table.blocks, size(table.blocks) / sizeof(std::uint32_t), offset);
  if (block > 0) {
    std::uint64_t start = number(table.blocks, block - 1);
    for (std::uint32_t in_block = 0; in_block < kNamesPerBlock; ++in_block) {
      start += terminated(table.names, start).size() + 1;
      if (offset < start)
        return static_cast<std::uint32_t>((block - 1) * kNamesPerBlock + in_block);
    }
  }
  fail("corrupt: a name lies outside its block");
}

std::uint64_t IndexSections::upper_bound(SectionKind numbers, std::uint64_t end,
                                         std::uint64_t value) const {
  std::uint64_t low = 0;
  while (low < end) {
    const std::uint64_t middle = low + (end - low) / 2;
    if (number(numbers, middle) <= value)
      low = middle + 1;
    else
      end = middle;
  }
  return low;
}

std::pair<std::uint32_t, std::uint32_t> IndexSections::equal_range(SectionKind numbers,
                                                                   std::uint32_t searched) const {
  const auto count = static_cast<std::uint32_t>(size(numbers) / sizeof(std::uint32_t));
  std::uint32_t low = 0;
  std::uint32_t high = count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (number(numbers, middle) < searched)
      low = middle + 1;
    else
      high = middle;
  }
  std::uint32_t end = low;
  while (end < count && number(numbers, end) == searched) ++end;
  return {low, end};
}

}  // namespace optrace
