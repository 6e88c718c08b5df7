#include "indexer/store/index_store.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "indexer/store/index_format.h"
#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "pytorch/symbols/symbol_key.h"

namespace optrace {

using index_format::kBlockSize;
using index_format::kNamesPerBlock;
using index_format::SectionKind;

namespace {

constexpr const char* kRemedy =
    "`optrace source add DIR` creates it again from a PyTorch source tree.";

// Returns `Foo.cpp` for `aten/Foo.cpp.AVX2.cpp`: ATen compiles a copy per CPU capability.
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

// nvcc writes `_` for each character other than a letter or digit.
bool is_named_alike(std::string_view one, std::string_view other) {
  const auto is_mark = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; };
  return std::ranges::equal(one, other,
                            [&](char a, char b) { return a == b || (is_mark(a) && is_mark(b)); });
}

bool is_header(std::string_view file) {
  return file.ends_with(".h") || file.ends_with(".cuh") || file.ends_with(".hpp");
}

// Returns true if a file's functions can be in a library, by the folders that PyTorch's build uses
// for it (aten/src/ATen/CMakeLists.txt).
bool may_be_in(std::string_view library, std::string_view file) {
  const auto lies_in = [&](std::string_view folder) {
    return file.find(folder) != std::string_view::npos;
  };
  const bool for_hip = lies_in("/miopen/") || lies_in("/hip/");
  const bool for_cuda =
      lies_in("/cuda/") || lies_in("/cudnn/") || file.ends_with(".cu") || file.ends_with(".cuh");
  if (library.find("cuda") != std::string_view::npos) return for_cuda && !for_hip;
  if (library.find("hip") != std::string_view::npos) return for_cuda || for_hip;
  return !for_cuda && !for_hip;
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

  // The columns with the bounds of lines; empty if all lines are exact.
  struct Interval {
    Part before;
    Part behind;
  };

  // Returns bytes of the data after verifying all blocks that contain them.
  std::span<const std::byte> data(std::uint64_t offset, std::uint64_t size) const;
  std::string_view text(const Part& part, std::uint64_t offset, std::uint64_t size) const;
  // Returns the text at `offset` up to its terminating NUL.
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

  // Calls `visit(key, value)` for each note, until `visit` returns false.
  template <typename Visit>
  void each_note(const Visit& visit) const {
    for (std::uint64_t at = 0; at < meta.size;) {
      const auto key = terminated(meta, at);
      at += key.size() + 1;
      const auto value = terminated(meta, at);
      at += value.size() + 1;
      if (!visit(key, value)) return;
    }
  }

  // Returns the offset of the name with that rank, in a section of names with `parts` texts each.
  std::uint64_t name_offset(const Part& names, const Part& blocks, std::uint64_t rank,
                            int parts) const;
  // Returns the rank of a name, if it is in the section.
  std::optional<std::uint32_t> rank_of(const Part& names, const Part& blocks, std::string_view name,
                                       int parts) const;

  std::string_view symbol(std::uint32_t rank) const {
    return terminated(symbols, name_offset(symbols, symbol_blocks, rank, 1));
  }
  // Returns the ranks of the first and one past the last definition of a symbol.
  std::pair<std::uint32_t, std::uint32_t> definitions_of(std::string_view canonical_symbol) const;
  std::optional<std::uint32_t> choose_definition(std::string_view canonical_symbol,
                                                 std::string_view source_file,
                                                 std::string_view library) const;
  Definition definition(std::uint32_t rank) const;
  // Returns the call sites of a definition.
  std::vector<CallSite> calls(std::uint32_t rank, const Definition& caller) const;
  OpEntry op(std::uint64_t offset, std::uint32_t rank) const;
  std::string_view file_name(std::uint32_t number) const;

  // Reads an enumerator in the range 0 ... `last`.
  template <typename Kind>
  Kind kind(const Part& part, std::uint64_t index, Kind last) const {
    const auto value = number<std::uint8_t>(part, index);
    if (value > static_cast<std::uint8_t>(last)) {
      fail("corrupt: an entry has an unknown kind");
    }
    return static_cast<Kind>(value);
  }

  std::string_view registration_text(std::uint32_t rank) const {
    return terminated(registration_texts,
                      name_offset(registration_texts, registration_text_blocks, rank, 1));
  }
  Registration registration(std::uint32_t rank) const;
  // Returns a location whose line has its bounds at `index` of `interval`.
  SourceLocation location(std::string_view path, std::uint32_t line, const Interval& interval,
                          std::uint64_t index) const;
  // Returns the range of the entries equal to `wanted` in a section of ascending numbers.
  std::pair<std::uint32_t, std::uint32_t> equal_range(const Part& numbers,
                                                      std::uint32_t wanted) const;
  PythonName python_name(std::uint64_t offset, std::uint32_t rank) const;
  // Returns the rank of the symbol that contains the byte at `offset` of the symbols.
  std::uint32_t symbol_at(std::uint64_t offset) const;

  /// Calls `visit(offset, all names up to the end of that symbol)` for the first occurrence of
  /// `part` in each symbol that contains it, until `visit` returns false.
  template <typename Visit>
  void each_place_of(std::string_view part, const Visit& visit) const;
  // Returns the text of the type of a definition's result; empty if there is none.
  std::string_view result(std::uint32_t rank) const;
  // Calls `visit(rank, definition)` for each definition, sorted by symbol.
  template <typename Visit>
  void each_definition(const Visit& visit) const;
  // Returns the definition that contains a call site.
  std::uint32_t caller_of(std::uint32_t call) const;

  MappedFile file;
  std::span<const std::byte> checksums;
  std::uint64_t data_offset = 0;
  // Set once a block's checksum has been verified. Never cleared, so relaxed memory order suffices.
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
  Part definition_kinds;
  Part call_kinds;
  Part op_facts;
  Part op_fact_starts;
  Part registration_texts;
  Part registration_text_blocks;
  Part registration_names;
  Part registration_keys;
  Part registration_functions;
  Part registration_kinds;
  Part registration_files;
  Part registration_lines;
  Part python_names;
  Part python_blocks;
  Part python_kinds;
  Part python_files;
  Part python_lines;
  Interval definition_intervals;
  Interval call_intervals;
  Interval registration_intervals;
  Part anchor_files;
  Part anchor_lines;
  Part anchor_keys;
  Part result_types;
  Part definition_results;
  std::vector<std::string_view> file_names;
  std::vector<std::string_view> result_texts;
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
    fail(fmt::format("it has version {} of the index format; this optrace reads version {}",
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
      {SectionKind::op_lines, &op_lines},
      {SectionKind::definition_kinds, &definition_kinds},
      {SectionKind::call_kinds, &call_kinds},
      {SectionKind::op_facts, &op_facts},
      {SectionKind::op_fact_starts, &op_fact_starts},
      {SectionKind::registration_texts, &registration_texts},
      {SectionKind::registration_text_blocks, &registration_text_blocks},
      {SectionKind::registration_names, &registration_names},
      {SectionKind::registration_keys, &registration_keys},
      {SectionKind::registration_functions, &registration_functions},
      {SectionKind::registration_kinds, &registration_kinds},
      {SectionKind::registration_files, &registration_files},
      {SectionKind::registration_lines, &registration_lines},
      {SectionKind::python_names, &python_names},
      {SectionKind::python_blocks, &python_blocks},
      {SectionKind::python_kinds, &python_kinds},
      {SectionKind::python_files, &python_files},
      {SectionKind::python_lines, &python_lines}};
  const std::pair<SectionKind, Part*> optional[] = {
      {SectionKind::definition_lines_before, &definition_intervals.before},
      {SectionKind::definition_lines_behind, &definition_intervals.behind},
      {SectionKind::call_lines_before, &call_intervals.before},
      {SectionKind::call_lines_behind, &call_intervals.behind},
      {SectionKind::registration_lines_before, &registration_intervals.before},
      {SectionKind::registration_lines_behind, &registration_intervals.behind},
      {SectionKind::anchor_files, &anchor_files},
      {SectionKind::anchor_lines, &anchor_lines},
      {SectionKind::anchor_keys, &anchor_keys},
      {SectionKind::result_types, &result_types},
      {SectionKind::definition_results, &definition_results}};
  std::uint64_t found = 0;
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
        found |= std::uint64_t{1} << static_cast<std::uint32_t>(kind);
      }
    }
    for (const auto& [kind, part] : optional)
      if (kind == section.kind) *part = {section.offset, section.size, section.count};
  }
  for (const auto& [kind, part] : wanted) {
    if ((found & (std::uint64_t{1} << static_cast<std::uint32_t>(kind))) == 0) {
      fail(fmt::format("corrupt: it has no section of kind {}", static_cast<std::uint32_t>(kind)));
    }
  }
  constexpr std::uint64_t kNumber = sizeof(std::uint32_t);
  const auto fits = [](const Interval& interval, const Part& lines) {
    return interval.before.size == interval.behind.size &&
           (interval.before.size == 0 || interval.before.size == lines.size);
  };
  if (definition_symbols.size != definition_kinds.size * kNumber ||
      definition_symbols.size != definition_files.size ||
      definition_symbols.size != definition_lines.size ||
      definition_symbols.size + kNumber != definition_calls.size ||
      call_callees.size != call_kinds.size * kNumber || call_callees.size != call_lines.size ||
      op_lines.size % kNumber != 0 || op_lines.size != op_fact_starts.size ||
      registration_names.size != registration_kinds.size * kNumber ||
      registration_names.size != registration_keys.size ||
      registration_names.size != registration_functions.size ||
      registration_names.size != registration_files.size ||
      registration_names.size != registration_lines.size ||
      python_files.size != python_kinds.size * kNumber || python_files.size != python_lines.size ||
      !fits(definition_intervals, definition_lines) || !fits(call_intervals, call_lines) ||
      !fits(registration_intervals, registration_lines) || anchor_files.size % kNumber != 0 ||
      anchor_files.size != anchor_lines.size || anchor_files.size != anchor_keys.size ||
      (definition_results.size != 0 && definition_results.size != definition_symbols.size)) {
    fail("corrupt: its sections are of unequal length");
  }
  for (std::uint64_t at = 0; at < files.size;) {
    file_names.push_back(terminated(files, at));
    at += file_names.back().size() + 1;
  }
  for (std::uint64_t at = 0; at < result_types.size;) {
    result_texts.push_back(terminated(result_types, at));
    at += result_texts.back().size() + 1;
  }
}

std::span<const std::byte> Index::State::data(std::uint64_t offset, std::uint64_t size) const {
  // Sections lie in the file (checked by the constructor), and callers stay in their section.
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
  // Searches in steps, so that looking for the end of one name does not verify unrelated blocks.
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
  while (low < high) {  // Finds the first block whose first name is greater.
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
  return equal_range(definition_symbols, *wanted);
}

std::pair<std::uint32_t, std::uint32_t> Index::State::equal_range(const Part& numbers,
                                                                  std::uint32_t wanted) const {
  const auto count = static_cast<std::uint32_t>(numbers.size / sizeof(std::uint32_t));
  std::uint32_t low = 0;
  std::uint32_t high = count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (number(numbers, middle) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  std::uint32_t end = low;
  while (end < count && number(numbers, end) == wanted) {
    ++end;
  }
  return {low, end};
}

std::optional<std::uint32_t> Index::State::choose_definition(std::string_view canonical_symbol,
                                                             std::string_view source_file,
                                                             std::string_view library) const {
  auto [first, end] = definitions_of(canonical_symbol);
  if (first == end) {
    const std::string key = function_key(canonical_symbol);
    std::tie(first, end) = key == canonical_symbol ? std::pair(0U, 0U) : definitions_of(key);
  }
  if (first == end) {
    return std::nullopt;
  }
  if (end - first == 1) {
    return first;
  }
  // The general definition of a template may do nothing because the specializations do the work.
  const std::string_view key = symbol(number(definition_symbols, first));
  const bool is_template = template_key(key) == key;
  const auto is_general = [&](std::uint32_t rank) {
    return is_template && number(definition_calls, rank) == number(definition_calls, rank + 1U);
  };
  // Criteria in descending order of importance.
  const auto fitness = [&](std::uint32_t rank) {
    const std::string_view path = definition(rank).location.file;
    const bool alike =
        !source_file.empty() && is_named_alike(source_name(path), source_name(source_file));
    return std::tuple(!source_file.empty() && path == source_file, alike, !is_general(rank),
                      !source_file.empty() && is_header(path),
                      !library.empty() && may_be_in(library, path));
  };
  std::uint32_t chosen = first;
  for (std::uint32_t rank = first + 1; rank < end; ++rank) {
    if (fitness(rank) > fitness(chosen)) {
      chosen = rank;
    }
  }
  return chosen;
}

template <typename Visit>
void Index::State::each_definition(const Visit& visit) const {
  // Both sections ascend, so one pass over the names is enough.
  std::uint64_t offset = 0;
  std::uint32_t current = 0;
  const auto count = static_cast<std::uint32_t>(definition_symbols.size / sizeof(std::uint32_t));
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const std::uint32_t wanted = number(definition_symbols, rank);
    if (wanted < current) {
      fail("corrupt: definitions are out of order");
    }
    for (; current < wanted; ++current) {
      offset += terminated(symbols, offset).size() + 1;
    }
    visit(rank, Definition{terminated(symbols, offset),
                           location(file_name(number(definition_files, rank)),
                                    number(definition_lines, rank), definition_intervals, rank),
                           kind(definition_kinds, rank, DefinitionKind::enumeration)});
  }
}

std::string_view Index::State::file_name(std::uint32_t number) const {
  if (number >= file_names.size()) {
    fail("corrupt: an entry has no file");
  }
  return file_names[number];
}

Definition Index::State::definition(std::uint32_t rank) const {
  return {symbol(number(definition_symbols, rank)),
          location(file_name(number(definition_files, rank)), number(definition_lines, rank),
                   definition_intervals, rank),
          kind(definition_kinds, rank, DefinitionKind::enumeration)};
}

std::string_view Index::State::result(std::uint32_t rank) const {
  if (definition_results.size == 0) return {};
  const std::uint32_t type = number(definition_results, rank);
  if (type > result_texts.size()) fail("corrupt: an entry has no type");
  return type == 0 ? std::string_view() : result_texts[type - 1];
}

std::vector<CallSite> Index::State::calls(std::uint32_t rank, const Definition& caller) const {
  std::vector<CallSite> found;
  const std::uint32_t end = number(definition_calls, rank + 1U);
  for (std::uint32_t at = number(definition_calls, rank); at < end; ++at) {
    const auto distance = number<std::int32_t>(call_lines, at);
    found.push_back(
        {symbol(number(call_callees, at)),
         location(caller.location.file, caller.location.line + static_cast<std::uint32_t>(distance),
                  call_intervals, at),
         kind(call_kinds, at, CallKind::reference)});
  }
  return found;
}

Registration Index::State::registration(std::uint32_t rank) const {
  const std::uint32_t function = number(registration_functions, rank);
  return {kind(registration_kinds, rank, RegistrationKind::stub),
          registration_text(number(registration_names, rank)),
          registration_text(number(registration_keys, rank)),
          function == 0 ? std::string_view() : symbol(function - 1),
          location(file_name(number(registration_files, rank)), number(registration_lines, rank),
                   registration_intervals, rank)};
}

SourceLocation Index::State::location(std::string_view path, std::uint32_t line,
                                      const Interval& interval, std::uint64_t index) const {
  SourceLocation made{path, line, {}};
  if (interval.before.size == 0) return made;
  const auto before = number(interval.before, index);
  const auto behind = number(interval.behind, index);
  if (before == 0 && behind == 0) return made;
  made.approximate = LineInterval{};
  constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
  if (before < line && behind < kLast - line)
    made.approximate = LineInterval{line - before, line + behind};
  return made;
}

PythonName Index::State::python_name(std::uint64_t offset, std::uint32_t rank) const {
  PythonName found;
  found.name = terminated(python_names, offset);
  found.target = terminated(python_names, offset + found.name.size() + 1);
  const auto letter = number<char>(python_kinds, rank);
  if (std::string_view("mcfba").find(letter) == std::string_view::npos) {
    fail("corrupt: an entry has an unknown kind");
  }
  found.kind = static_cast<PythonKind>(letter);
  const std::uint32_t file_number = number(python_files, rank);
  if (file_number != 0) {
    found.location = {file_name(file_number - 1), number(python_lines, rank), {}};
  }
  return found;
}

std::uint32_t Index::State::symbol_at(std::uint64_t offset) const {
  std::uint64_t low = 0;
  std::uint64_t high = symbol_blocks.size / sizeof(std::uint32_t);
  while (low < high) {  // Finds the first block that starts after the offset.
    const std::uint64_t middle = low + (high - low) / 2;
    if (number(symbol_blocks, middle) <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low > 0) {
    std::uint64_t start = number(symbol_blocks, low - 1);
    for (std::uint32_t in_block = 0; in_block < kNamesPerBlock; ++in_block) {
      start += terminated(symbols, start).size() + 1;
      if (offset < start) {
        return static_cast<std::uint32_t>((low - 1) * kNamesPerBlock + in_block);
      }
    }
  }
  fail("corrupt: a name lies outside its block");
}

std::uint32_t Index::State::caller_of(std::uint32_t call) const {
  std::uint64_t low = 0;
  std::uint64_t high = definition_symbols.size / sizeof(std::uint32_t);
  while (low < high) {  // Finds the first definition whose calls end after this one.
    const std::uint64_t middle = low + (high - low) / 2;
    if (number(definition_calls, middle + 1) <= call) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (number(definition_calls, low) > call) {
    fail("corrupt: a call has no function");
  }
  return static_cast<std::uint32_t>(low);
}

OpEntry Index::State::op(std::uint64_t offset, std::uint32_t rank) const {
  const std::string_view unambiguous = terminated(op_names, offset);
  return {terminated(op_names, offset + unambiguous.size() + 1),
          unambiguous,
          {index_format::kOpsFile, number(op_lines, rank), {}}};
}

Index::Index(std::unique_ptr<State> state) : state_(std::move(state)) {}
Index::~Index() = default;
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;

Index Index::open(const std::filesystem::path& path) {
  return Index(std::make_unique<State>(path));
}

std::string_view Index::note(std::string_view key) const {
  std::string_view found;
  state_->each_note([&](std::string_view name, std::string_view value) {
    if (name == key) found = value;
    return found.data() == nullptr;
  });
  return found;
}

std::map<std::string, std::string> Index::notes() const {
  std::map<std::string, std::string> all;
  state_->each_note([&](std::string_view name, std::string_view value) {
    all.emplace(name, value);
    return true;
  });
  return all;
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

bool Index::has_approximate_lines() const {
  return state_->definition_intervals.before.size != 0 || state_->call_intervals.before.size != 0 ||
         state_->registration_intervals.before.size != 0;
}

std::optional<Definition> Index::find_definition(std::string_view canonical_symbol,
                                                 std::string_view source_file,
                                                 std::string_view library) const {
  const auto rank = state_->choose_definition(canonical_symbol, source_file, library);
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

bool Index::has_result_types() const {
  return state_->definition_results.size != 0;
}

std::optional<ResultType> Index::result_type_of(std::string_view canonical_symbol,
                                                std::string_view source_file,
                                                std::string_view library) const {
  const auto rank = state_->choose_definition(canonical_symbol, source_file, library);
  const std::string_view text = rank ? state_->result(*rank) : std::string_view();
  if (text.empty()) return std::nullopt;
  auto type = parse_result_type(text);
  if (!type) state_->fail("corrupt: the type of a result is none");
  return type;
}

std::vector<CallSite> Index::calls_of(std::string_view canonical_symbol,
                                      std::string_view source_file,
                                      std::string_view library) const {
  auto rank = state_->choose_definition(canonical_symbol, source_file, library);
  // A lambda that could not be identified: its function has the calls of all its lambdas.
  for (auto outer = enclosing_function(canonical_symbol); !rank && outer;
       outer = enclosing_function(*outer)) {
    rank = state_->choose_definition(*outer, source_file, library);
  }
  if (!rank) {
    return {};
  }
  return state_->calls(*rank, state_->definition(*rank));
}

template <typename Visit>
void Index::State::each_place_of(std::string_view part, const Visit& visit) const {
  if (part.find('\0') != std::string_view::npos) {
    return;
  }
  const auto names = text(symbols, 0, symbols.size);
  std::size_t at = 0;
  while (at < names.size()) {
    // memmem, not find: find searches for the first letter, which is a digit in most names.
    const void* hit = ::memmem(names.data() + at, names.size() - at, part.data(), part.size());
    if (hit == nullptr) {
      return;
    }
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(hit) - names.data());
    const std::size_t end = std::min(names.find('\0', offset), names.size() - 1);
    if (!visit(offset, names.substr(0, end))) {
      return;
    }
    at = end + 1;
  }
}

std::vector<Definition> Index::find_definitions_with(std::string_view part,
                                                     std::size_t limit) const {
  std::vector<Definition> found;
  state_->each_place_of(part, [&](std::size_t offset, std::string_view) {
    auto [first, end] = state_->equal_range(state_->definition_symbols, state_->symbol_at(offset));
    for (; first < end && found.size() < limit; ++first) {
      found.push_back(state_->definition(first));
    }
    return found.size() < limit;
  });
  return found;
}

void Index::each_symbol_with(std::string_view part,
                             const std::function<bool(std::string_view)>& visit) const {
  state_->each_place_of(part, [&](std::size_t, std::string_view names) {
    return visit(names.substr(names.rfind('\0') + 1));
  });
}

void Index::each_definition(const std::function<void(const Definition&)>& visit) const {
  state_->each_definition([&](std::uint32_t, const Definition& definition) { visit(definition); });
}

void Index::each_function(
    const std::function<void(const Definition&, const std::vector<CallSite>&)>& visit) const {
  state_->each_definition([&](std::uint32_t rank, const Definition& definition) {
    visit(definition, state_->calls(rank, definition));
  });
}

std::vector<Caller> Index::callers_of(std::string_view canonical_symbol) const {
  std::vector<Caller> callers;
  const auto rank_of = [&](std::string_view name) {
    return state_->rank_of(state_->symbols, state_->symbol_blocks, name, 1);
  };
  const auto exact = rank_of(canonical_symbol);
  const auto key = rank_of(function_key(canonical_symbol));
  if (!exact && !key) {
    return callers;
  }
  const std::uint32_t wanted = exact ? *exact : *key;
  const std::uint32_t also_wanted = key ? *key : *exact;
  // A scan of all call sites: 4 MB take a millisecond; an inverse table would need as much space
  // again.
  const auto callees = state_->data(state_->call_callees.offset, state_->call_callees.size);
  const auto count = static_cast<std::uint32_t>(call_site_count());
  for (std::uint32_t at = 0; at < count; ++at) {
    std::uint32_t callee = 0;
    std::memcpy(&callee, callees.data() + at * sizeof callee, sizeof callee);
    if (callee == wanted || callee == also_wanted) {
      const Definition caller = state_->definition(state_->caller_of(at));
      const auto distance = state_->number<std::int32_t>(state_->call_lines, at);
      const SourceLocation place = state_->location(
          caller.location.file, caller.location.line + static_cast<std::uint32_t>(distance),
          state_->call_intervals, at);
      callers.push_back({caller, place.line, place.approximate,
                         state_->kind(state_->call_kinds, at, CallKind::reference)});
    }
  }
  return callers;
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

OpFacts Index::facts_of(const OpEntry& op) const {
  const auto rank = state_->rank_of(state_->op_names, state_->op_blocks, op.unambiguous_name, 2);
  if (!rank) {
    return {};
  }
  const auto text =
      state_->terminated(state_->op_facts, state_->number(state_->op_fact_starts, *rank));
  if (text.empty()) {
    return {};
  }
  try {
    return parse_op_facts(text);
  } catch (const Error& error) {
    state_->fail(fmt::format("corrupt: the facts of {}: {}", op.unambiguous_name, error.what()));
  }
}

std::vector<Registration> Index::registrations_of(std::string_view name) const {
  std::vector<Registration> found;
  if (const auto rank =
          state_->rank_of(state_->registration_texts, state_->registration_text_blocks, name, 1)) {
    auto [first, end] = state_->equal_range(state_->registration_names, *rank);
    for (; first < end; ++first) {
      found.push_back(state_->registration(first));
    }
  }
  return found;
}

std::vector<Registration> Index::registrations() const {
  std::vector<Registration> all;
  const auto count = static_cast<std::uint32_t>(state_->registration_kinds.size);
  all.reserve(count);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    all.push_back(state_->registration(rank));
  }
  return all;
}

bool Index::has_anchors() const {
  return state_->anchor_files.size > 0;
}

std::vector<IndexedAnchor> Index::anchors() const {
  std::vector<IndexedAnchor> all;
  const std::uint64_t count = state_->anchor_files.size / sizeof(std::uint32_t);
  all.reserve(count);
  for (std::uint64_t rank = 0; rank < count; ++rank)
    all.push_back({std::string(state_->file_name(state_->number(state_->anchor_files, rank))),
                   state_->number(state_->anchor_lines, rank),
                   state_->number(state_->anchor_keys, rank)});
  return all;
}

std::optional<PythonName> Index::find_python_name(std::string_view name) const {
  const auto rank = state_->rank_of(state_->python_names, state_->python_blocks, name, 2);
  if (!rank) {
    return std::nullopt;
  }
  return state_->python_name(
      state_->name_offset(state_->python_names, state_->python_blocks, *rank, 2), *rank);
}

std::vector<PythonName> Index::python_names() const {
  std::vector<PythonName> all;
  std::uint64_t offset = 0;
  for (std::uint32_t rank = 0; offset < state_->python_names.size; ++rank) {
    all.push_back(state_->python_name(offset, rank));
    offset += all.back().name.size() + all.back().target.size() + 2;
  }
  return all;
}

IndexContents Index::contents() const {
  IndexContents all;
  all.meta = notes();
  state_->each_definition([&](std::uint32_t rank, const Definition& definition) {
    const std::vector<CallSite> calls = state_->calls(rank, definition);
    IndexContents::Function function{.symbol = std::string(definition.symbol),
                                     .file = std::string(definition.location.file),
                                     .line = definition.location.line,
                                     .calls = {},
                                     .kind = definition.kind,
                                     .approximate = definition.location.approximate,
                                     .result = std::string(state_->result(rank))};
    for (const CallSite& call : calls)
      function.calls.push_back({.callee = std::string(call.callee),
                                .line = call.location.line,
                                .kind = call.kind,
                                .approximate = call.location.approximate});
    all.functions.push_back(std::move(function));
  });
  for (const Registration& registration : registrations())
    all.registrations.push_back({.kind = registration.kind,
                                 .name = std::string(registration.name),
                                 .key = std::string(registration.key),
                                 .function = std::string(registration.function),
                                 .file = std::string(registration.location.file),
                                 .line = registration.location.line,
                                 .approximate = registration.location.approximate});
  const std::vector<OpEntry> entries = ops();
  for (std::size_t rank = 0; rank < entries.size(); ++rank)
    all.ops.push_back({.name = std::string(entries[rank].name),
                       .unambiguous_name = std::string(entries[rank].unambiguous_name),
                       .line = entries[rank].location.line,
                       .facts = std::string(state_->terminated(
                           state_->op_facts, state_->number(state_->op_fact_starts, rank)))});
  for (const PythonName& name : python_names())
    all.python_names.push_back({.name = std::string(name.name),
                                .kind = static_cast<char>(name.kind),
                                .target = std::string(name.target),
                                .file = std::string(name.location.file),
                                .line = name.location.line});
  all.anchors = anchors();
  return all;
}

}  // namespace optrace
