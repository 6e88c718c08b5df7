#pragma once

// The index file, described once; docs/index-format.md explains the choices.
//
//   Header | Section[section_count] | u64 checksum[block_count] | data
//
// Little-endian. Sections lie in the data, each at a multiple of 8 bytes, and are found by their
// kind; a reader skips kinds that it does not know, so a section can be added without a new
// version. The data is cut into blocks of kBlockSize bytes, each with its own checksum: a reader
// maps the file and verifies a block when it first touches it, not the whole file when opening it.

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
  std::uint64_t data_offset;  // Of the first block, from the file's start.
  std::uint64_t block_count;
  std::uint64_t checksum;  // XXH3_64bits of the section table and the block checksums.
};

enum class SectionKind : std::uint32_t {
  meta = 1,     // key NUL value NUL ...: torch_version, git_version, and whatever a writer adds.
  files = 2,    // Paths, each ended by NUL; a file's number is its rank.
  symbols = 3,  // Canonical names in byte order, each ended by NUL; a symbol's number is its rank.
  symbol_blocks = 4,       // u32: where in `symbols` the names 0, 16, 32, ... start.
  definition_symbols = 5,  // u32 per definition, ascending: the function's symbol.
  definition_files = 6,    // u32 per definition: the file's number.
  definition_lines = 7,    // u32 per definition, from 1.
  definition_calls = 8,    // u32 per definition and one more: where its calls start in call_*.
  call_callees = 9,        // u32 per call site: the callee's symbol.
  call_lines = 10,         // i32 per call site: its line less the definition's line.
  ops = 11,  // unambiguous name NUL full name NUL, in byte order of the first; a rank is a number.
  op_blocks = 12,                 // u32: where in `ops` the entries 0, 16, 32, ... start.
  op_lines = 13,                  // u32 per op: the line in kOpsFile.
  definition_kinds = 14,          // u8 per definition: DefinitionKind.
  call_kinds = 15,                // u8 per call site: CallKind.
  op_facts = 16,                  // Per op the JSON of op_facts.h, or nothing, ended by NUL.
  op_fact_starts = 17,            // u32 per op: where in `op_facts` its text starts.
  registration_texts = 18,        // Names and keys in byte order, each ended by NUL.
  registration_text_blocks = 19,  // u32: where in them the texts 0, 16, 32, ... start.
  registration_names = 20,        // u32 per registration, ascending: the name's rank in the texts.
  registration_keys = 21,         // u32 per registration: the key's rank in the texts.
  registration_functions = 22,    // u32 per registration: 1 + the function's symbol; 0: none.
  registration_kinds = 23,        // u8 per registration: RegistrationKind.
  registration_files = 24,        // u32 per registration: the file's number.
  registration_lines = 25,        // u32 per registration, from 1.
  python_names = 26,   // name NUL target NUL, in byte order of the names; a rank is a number.
  python_blocks = 27,  // u32: where in `python_names` the entries 0, 16, 32, ... start.
  python_kinds = 28,   // u8 per name: the letter of PythonKind.
  python_files = 29,   // u32 per name: 1 + the file's number; 0: none.
  python_lines = 30,   // u32 per name; 0 where there is no file.
};

// Names per entry of a *_blocks section.
constexpr std::uint32_t kNamesPerBlock = 16;

constexpr const char* kOpsFile = "aten/src/ATen/native/native_functions.yaml";

struct Section {
  SectionKind kind;
  std::uint32_t count;   // Of entries, where the kind has entries.
  std::uint64_t offset;  // From data_offset; a multiple of 8.
  std::uint64_t size;    // In bytes.
};

static_assert(sizeof(Header) == 48 && sizeof(Section) == 24);

}  // namespace optrace::index_format
