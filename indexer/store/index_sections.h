#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "indexer/store/index_format.h"
#include "indexer/store/index_rows.h"
#include "platform/files/mapped_file.h"

namespace optrace {

/// The sections of an index file, mapped into memory. All data is verified before use. Every
/// function throws Error(usage), which names the file and the problem, if the part that it reads is
/// corrupt.
class IndexSections {
 public:
  using SectionKind = index_format::SectionKind;
  using NameTable = index_format::NameTable;

  /// Throws Error(usage) as described at Index::open().
  explicit IndexSections(const std::filesystem::path& path);

  [[noreturn]] void fail(const std::string& what) const;

  const std::filesystem::path& path() const { return file_.path(); }

  /// Returns the size in bytes; 0 if the index does not have the section.
  std::uint64_t size(SectionKind kind) const { return parts_[static_cast<std::size_t>(kind)].size; }

  /// Returns the bytes of a section, all of them verified.
  std::span<const std::byte> bytes(SectionKind kind) const;

  std::string_view text(SectionKind kind, std::uint64_t offset, std::uint64_t size) const;

  /// Returns the text at `offset` up to its terminating NUL.
  std::string_view terminated(SectionKind kind, std::uint64_t offset) const;

  /// Returns all texts of a section.
  std::vector<std::string_view> all_terminated(SectionKind kind) const;

  template <typename Number = std::uint32_t>
  Number number(SectionKind kind, std::uint64_t index) const {
    const Part& part = parts_[static_cast<std::size_t>(kind)];
    if (index >= part.size / sizeof(Number)) fail("corrupt: a number lies outside its section");
    Number value{};
    std::memcpy(&value, data(part.offset + index * sizeof(Number), sizeof(Number)).data(),
                sizeof(Number));
    return value;
  }

  template <typename Row>
  Row row(std::uint64_t index) const {
    Row row;
    index_format::each_column(row, [&]<typename Field>(SectionKind kind, Field& field) {
      field = number<Field>(kind, index);
    });
    return row;
  }

  /// Returns the number of rows of a table. The constructor has verified that its columns are
  /// equally long.
  template <typename Row>
  std::uint32_t count() const {
    std::uint64_t rows = 0;
    const Row none;
    index_format::each_column(none, [&]<typename Field>(SectionKind kind, const Field&) {
      rows = size(kind) / sizeof(Field);
    });
    return static_cast<std::uint32_t>(rows);
  }

  /// Returns the offset of the name with that rank.
  std::uint64_t name_offset(const NameTable& table, std::uint64_t rank) const;

  /// Returns the name with that rank, the first of its texts.
  std::string_view name(const NameTable& table, std::uint64_t rank) const {
    return terminated(table.names, name_offset(table, rank));
  }

  /// Returns the rank of a name, if the table has it.
  std::optional<std::uint32_t> rank_of(const NameTable& table, std::string_view name) const;

  /// Returns the rank of the name that contains the byte at `offset`. The names have one text each.
  std::uint32_t rank_at(const NameTable& table, std::uint64_t offset) const;

  /// Returns the range of the entries equal to `searched` in a section of ascending numbers.
  std::pair<std::uint32_t, std::uint32_t> equal_range(SectionKind numbers,
                                                      std::uint32_t searched) const;

  /// Returns the first index, below `end`, whose number is greater than `value`, or `end`. The
  /// numbers ascend.
  std::uint64_t upper_bound(SectionKind numbers, std::uint64_t end, std::uint64_t value) const;

 private:
  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };

  index_format::Header read_header() const;
  void read_section_table(std::span<const std::byte> table);
  void check_tables() const;
  template <typename Row>
  std::uint64_t checked_count() const;

  // Returns bytes of the data after verifying all blocks that contain them.
  std::span<const std::byte> data(std::uint64_t offset, std::uint64_t size) const;

  MappedFile file_;
  std::span<const std::byte> checksums_;
  std::uint64_t data_offset_ = 0;
  // Set once a block's checksum has been verified. Never cleared, so relaxed memory order suffices.
  std::unique_ptr<std::atomic<bool>[]> verified_;
  std::array<Part, index_format::kSectionKinds> parts_{};  // By SectionKind.
};

}  // namespace optrace
