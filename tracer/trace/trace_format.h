#pragma once

// The trace file, as docs/trace-format.md describes it to readers in other languages.
//
//   FileHeader | section_count times: SectionHeader, then `stored_size` bytes of one zstd frame
//
// Little-endian, nothing padded. Sections come in the order of SectionKind; all but `thread` occur
// exactly once. What a section holds once decompressed is a sequence of numbers and texts: a number
// is an unsigned LEB128, a text its size in bytes as a number and then the bytes (UTF-8 for names
// and paths of sane programs; not checked). `index` numbers are stored plus one, so that 0 is
// kNone.

#include <cstdint>

namespace optrace::trace_format {

constexpr char kMagic[8] = {'O', 'P', 'T', 'R', 'A', 'C', 'E', '\0'};

/// Raised with every change to the layout; a reader knows one version.
constexpr std::uint32_t kVersion = 4;

/// The checksum seals the file against accidents, not against malice.
struct FileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t section_count;
  std::uint64_t checksum;  ///< XXH3_64bits of all bytes that follow this header.
};

enum class SectionKind : std::uint32_t {
  meta = 1,              ///< JSON text, an object; no size in front.
  modules = 2,           ///< count, then: path, build-id.
  functions = 3,         ///< count, then: module index, address, symbol, source file, flags,
                         ///< count of tail calls, indexes of their targets.
  python_functions = 4,  ///< count, then: name, file, first line.
  paths = 5,             ///< the eight statistics; count, then paths.
  op_records = 6,        ///< count, then: JSON text.
  thread = 7,            ///< id, lost, count of initial frames, frames, count of events, events.
};

/// Bits of a function's flags.
constexpr std::uint64_t kProbed = 1;
constexpr std::uint64_t kEntersItself = 2;
constexpr std::uint64_t kJumpsIndirectly = 4;
constexpr std::uint64_t kKnownFlags = kProbed | kEntersItself | kJumpsIndirectly;

// A path: kind * 2 + tail call, parent index, what index, line, column, end line, end column,
// builtin index, thread, threads, caused by index, calls, total, shortest and longest time, count
// of op tallies (record, results, calls), count of argument tallies (first, second, calls), ops
// left out, count of activity tallies (record, times, total, shortest and longest time), activities
// left out. An initial frame: function index, stack pointer, return address. An event: kind, what
// index, caller index, line, then the stack pointer, the return address and the time as differences
// to the thread's event before (0 before the first), each zigzag-coded: (d << 1) ^ (d >> 63).

struct SectionHeader {
  SectionKind kind;
  std::uint32_t reserved;      ///< 0.
  std::uint64_t stored_size;   ///< Bytes that follow.
  std::uint64_t decoded_size;  ///< Bytes once decompressed.
};

/// A reader refuses what claims more: no real trace comes near, a crafted one must not fill memory.
constexpr std::uint64_t kMaxDecodedBytes = std::uint64_t{1} << 30;  ///< All sections together.
/// That a timeline keeps, of all threads: at 46 bytes at most, they leave room for the rest.
constexpr std::uint64_t kMaxEvents = std::uint64_t{1} << 24;
constexpr std::uint64_t kMaxMetaBytes = std::uint64_t{1} << 26;

/// What a file may expand to grows with its size, so that a small file can't ask for much memory. A
/// writer lengthens a file that compresses better than that (kPadding).
struct Expansion {
  std::uint64_t free;      ///< Bytes that any file may have.
  std::uint64_t multiple;  ///< Of the file's size, beyond those.

  constexpr std::uint64_t most(std::uint64_t file_size) const {
    return free + multiple * file_size;
  }
  /// The smallest file that may have so much.
  constexpr std::uint64_t least_file(std::uint64_t expanded) const {
    return expanded <= free ? 0 : (expanded - free + multiple - 1) / multiple;
  }
};
/// All sections together, decompressed.
constexpr Expansion kDecoded{std::uint64_t{1} << 20, 100};
/// The texts that paths name, each counted once for each path that names it.
constexpr Expansion kNamed{std::uint64_t{32} << 20, 512};

/// A skippable frame of zstd's: this magic number and the size (4 bytes each), then zeros. Only the
/// last section has one, behind its own frame.
constexpr std::uint32_t kPadding = 0x184D2A50;
constexpr std::uint32_t kMaxSections = 1 << 20;

static_assert(sizeof(FileHeader) == 24 && sizeof(SectionHeader) == 24);

}  // namespace optrace::trace_format
