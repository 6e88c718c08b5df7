#pragma once

// The trace file. docs/trace-format.md describes it for readers in other languages.
//
//   FileHeader | section_count times: SectionHeader, then `stored_size` bytes of one zstd frame
//
// Little-endian, without padding. Sections come in the order of SectionKind; all but `thread` occur
// exactly once. A decompressed section is a sequence of numbers and texts: a number is an unsigned
// LEB128; a text is its size in bytes as a number, followed by the bytes (UTF-8 for usual names and
// paths; not checked). `index` numbers are stored plus one, so that 0 is kNone.

#include <cstdint>

namespace optrace::trace_format {

constexpr char kMagic[8] = {'O', 'P', 'T', 'R', 'A', 'C', 'E', '\0'};

/// Incremented with every change to the layout. A reader supports one version.
constexpr std::uint32_t kVersion = 7;

/// The checksum protects the file against accidental damage, not against manipulation.
struct FileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t section_count;
  std::uint64_t checksum;  ///< XXH3_64bits of all bytes that follow this header.
};

enum class SectionKind : std::uint32_t {
  meta = 1,     ///< A JSON object as text, without a size.
  modules = 2,  ///< count, then: path, build-id, flags.
  /// count, then: module index, address, symbol, source file, flags, count of tail calls, indexes
  /// of their targets.
  functions = 3,
  python_functions = 4,  ///< count, then: name, file, first line.
  paths = 5,             ///< the eight statistics; count, then paths.
  op_records = 6,        ///< count, then: JSON text.
  thread = 7,            ///< id, lost, count of initial frames, frames, count of events, events.
};

/// Bits of a module's flags.
constexpr std::uint64_t kHasDebugInfo = 1;

/// Bits of a function's flags.
constexpr std::uint64_t kProbed = 1;
constexpr std::uint64_t kEntersItself = 2;
constexpr std::uint64_t kJumpsIndirectly = 4;
constexpr std::uint64_t kKnownFlags = kProbed | kEntersItself | kJumpsIndirectly;

// A path: kind * 2 + tail call, parent index, what index, line, column, end line, end column,
// builtin index, call offset, thread, threads, caused by index, calls, total, shortest and longest
// time, count of op counts (record, results, calls), count of argument counts (first, second,
// calls), ops left out, count of activity counts (record, times, total, shortest and longest
// time), activities left out, count of return counts (value, calls), returns left out. An initial
// frame: function index, stack pointer, return address. An event: kind, what index, caller index,
// line, then the stack pointer, the return address and the time as differences from the thread's
// previous event (0 before the first), each zigzag-coded: (d
// << 1) ^ (d >> 63).

struct SectionHeader {
  SectionKind kind;
  std::uint32_t reserved;      ///< 0.
  std::uint64_t stored_size;   ///< Bytes that follow.
  std::uint64_t decoded_size;  ///< Bytes once decompressed.
};

/// Readers refuse a file that exceeds one of these limits. Real traces are far smaller; a crafted
/// file must not exhaust memory.
constexpr std::uint64_t kMaxDecodedBytes = std::uint64_t{1} << 30;  ///< All sections together.
/// The number of events that a timeline keeps for all threads. At up to 46 bytes each, they leave
/// room for the other sections.
constexpr std::uint64_t kMaxEvents = std::uint64_t{1} << 24;
constexpr std::uint64_t kMaxMetaBytes = std::uint64_t{1} << 26;

/// Limits the decoded size in proportion to the file's size, so that a small file can't request
/// much memory. A writer pads a file that compresses better than this limit (kPadding).
struct Expansion {
  std::uint64_t free;      ///< Bytes allowed for any file.
  std::uint64_t multiple;  ///< Additional bytes for each byte of the file.

  constexpr std::uint64_t most(std::uint64_t file_size) const {
    return free + multiple * file_size;
  }
  /// Returns the size of the smallest file for which `expanded` bytes are allowed.
  constexpr std::uint64_t least_file(std::uint64_t expanded) const {
    return expanded <= free ? 0 : (expanded - free + multiple - 1) / multiple;
  }
};
/// All sections together, decompressed.
constexpr Expansion kDecoded{std::uint64_t{1} << 20, 100};
/// The texts that paths refer to, counted once for each path that refers to them.
constexpr Expansion kNamed{std::uint64_t{32} << 20, 512};

/// A skippable zstd frame: this magic number and the size (4 bytes each), then zeros. Only the last
/// section has one, after its own frame.
constexpr std::uint32_t kPadding = 0x184D2A50;
constexpr std::uint32_t kMaxSections = 1 << 20;

static_assert(sizeof(FileHeader) == 24 && sizeof(SectionHeader) == 24);

}  // namespace optrace::trace_format
