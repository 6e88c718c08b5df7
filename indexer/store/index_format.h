#pragma once

// The index file format. docs/index-format.md explains the design.
//
//   Header | Section[section_count] | u64 checksum[block_count] | data
//
// Little-endian. Each section starts at a multiple of 8 bytes in the data and is found by its kind.
// A reader skips unknown kinds, so that a section can be added without a new version. The data is
// divided into blocks of kBlockSize bytes, each with its own checksum. A reader maps the file and
// verifies a block when it first accesses it, rather than the whole file when opening it.

#include <cstddef>
#include <cstdint>

namespace optrace::index_format {

constexpr char kMagic[8] = {'O', 'P', 'T', 'I', 'N', 'D', 'E', 'X'};
constexpr std::uint32_t kVersion = 3;
constexpr std::uint32_t kBlockSize = 32 * 1024;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t section_count;
  std::uint64_t file_size;
  std::uint64_t data_offset;  // Offset of the first block from the start of the file.
  std::uint64_t block_count;
  std::uint64_t checksum;  // XXH3_64bits of the section table and the block checksums.
};

enum class SectionKind : std::uint32_t {
  meta = 1,   // key NUL value NUL ...: torch_version, git_version, and others that the writer adds.
  files = 2,  // Paths, NUL-terminated; a file's number is its rank.
  symbols = 3,  // Canonical names in byte order, NUL-terminated; a symbol's number is its rank.
  symbol_blocks = 4,       // u32: offsets in `symbols` of the names 0, 16, 32, ...
  definition_symbols = 5,  // u32 per definition, ascending: the function's symbol.
  definition_files = 6,    // u32 per definition: the file's number.
  definition_lines = 7,    // u32 per definition, from 1.
  // u32 per definition, and one at the end: index of its first call in call_*.
  definition_calls = 8,
  call_callees = 9,  // u32 per call site: the callee's symbol.
  call_lines = 10,   // i32 per call site: its line minus the definition's line.
  // unambiguous name NUL full name NUL, in byte order of the first; an op's number is its rank.
  ops = 11,
  op_blocks = 12,                 // u32: offsets in `ops` of the entries 0, 16, 32, ...
  op_lines = 13,                  // u32 per op: the line in kOpsFile.
  definition_kinds = 14,          // u8 per definition: DefinitionKind.
  call_kinds = 15,                // u8 per call site: CallKind.
  op_facts = 16,                  // Per op the JSON of op_facts.h, possibly empty, NUL-terminated.
  op_fact_starts = 17,            // u32 per op: offset of its text in `op_facts`.
  registration_texts = 18,        // Names and keys in byte order, NUL-terminated.
  registration_text_blocks = 19,  // u32: offsets in registration_texts of the texts 0, 16, 32, ...
  registration_names = 20,        // u32 per registration, ascending: rank of the name in the texts.
  registration_keys = 21,         // u32 per registration: rank of the key in the texts.
  registration_functions = 22,  // u32 per registration: 1 + the function's symbol number; 0: none.
  registration_kinds = 23,      // u8 per registration: RegistrationKind.
  registration_files = 24,      // u32 per registration: the file's number.
  registration_lines = 25,      // u32 per registration, from 1.
  // name NUL target NUL, in byte order of the names; a name's number is its rank.
  python_names = 26,
  python_blocks = 27,  // u32: offsets in `python_names` of the entries 0, 16, 32, ...
  python_kinds = 28,   // u8 per name: the letter of PythonKind.
  python_files = 29,   // u32 per name: 1 + the file's number; 0: none.
  python_lines = 30,   // u32 per name; 0 if the name has no file.
  // Optional, only in an index with lines that are not exact. u32 each: how many lines before and
  // behind the given one the true one may lie; both are 0 for an exact line, and kNoBound if no
  // bound is known.
  definition_lines_before = 31,
  definition_lines_behind = 32,
  call_lines_before = 33,
  call_lines_behind = 34,
  registration_lines_before = 35,
  registration_lines_behind = 36,
  // Optional. u32 per anchor, sorted by file and line: the file's number, the line, and a hash of
  // the rest (index_contents.h).
  anchor_files = 37,
  anchor_lines = 38,
  anchor_keys = 39,
  // Optional. The texts of types (result_type.h) in byte order, NUL-terminated, and u32 per
  // definition: 1 + the rank of its type, 0 for none.
  result_types = 40,
  definition_results = 41,
};

// Every index has the sections in this range.
constexpr SectionKind kFirstRequired = SectionKind::meta;
constexpr SectionKind kLastRequired = SectionKind::python_lines;

// One more than the last kind.
constexpr std::size_t kSectionKinds = static_cast<std::size_t>(SectionKind::definition_results) + 1;

// Names per entry of a *_blocks section.
constexpr std::uint32_t kNamesPerBlock = 16;

constexpr std::uint32_t kNoBound = 0xFFFFFFFF;

struct Section {
  SectionKind kind;
  std::uint32_t count;   // Number of entries, for kinds that have entries.
  std::uint64_t offset;  // Offset from data_offset; a multiple of 8.
  std::uint64_t size;    // Size in bytes.
};

static_assert(sizeof(Header) == 48 && sizeof(Section) == 24);

}  // namespace optrace::index_format
