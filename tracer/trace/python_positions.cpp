#include "tracer/trace/python_positions.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "tracer/trace/trace.h"

namespace optrace {
namespace {

constexpr std::uint32_t kInstructionUnit = 2;  // In bytes; 3.11 and later count in these units.
constexpr std::int64_t kMaxLines = std::numeric_limits<std::int32_t>::max();

std::uint32_t sane(std::int64_t number) {
  return number < 1 || number > kMaxLines ? 0 : static_cast<std::uint32_t>(number);
}

/// Reads bytes from the front. Past the end, it returns zeros and ran_out() is true.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  std::uint8_t next() {
    if (bytes_.empty()) {
      short_ = true;
      return 0;
    }
    const auto byte = static_cast<std::uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte;
  }
  /// Six bits per byte, lowest first; the seventh bit is set if more bytes follow.
  std::int64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 36; shift += 6) {
      const std::uint8_t byte = next();
      value |= std::uint64_t{byte & 63U} << shift;
      if ((byte & 64U) == 0) return static_cast<std::int64_t>(value);
    }
    short_ = true;
    return 0;
  }
  std::int64_t signed_number() {
    const std::int64_t value = number();
    return (value & 1) != 0 ? -(value >> 1) : value >> 1;
  }
  bool ran_out() const { return short_; }

 private:
  std::string_view bytes_;
  bool short_ = false;
};

// One entry of a table: the number of instruction bytes at a position.
struct Entry {
  std::uint64_t bytes = 0;
  CodePosition position{};
};

// 3.11 and later: Objects/locations.md (InternalDocs/code_objects.md) of CPython. The first byte
// has a form and a length; the rest depends on the form.
std::optional<Entry> next_location(Bytes& bytes, std::int64_t& line) {
  constexpr unsigned kOneLine = 10;
  constexpr unsigned kNoColumns = 13;
  constexpr unsigned kLong = 14;
  constexpr unsigned kNone = 15;
  const std::uint8_t first = bytes.next();
  const unsigned form = (first >> 3U) & 15U;
  Entry entry{(first & 7ULL) * kInstructionUnit + kInstructionUnit};
  CodePosition& position = entry.position;
  if ((first & 128U) == 0) return std::nullopt;
  if (form == kNone) return entry;
  std::int64_t lines = 0;
  if (form < kOneLine) {
    const std::uint8_t second = bytes.next();
    position.column = 1 + form * 8 + ((second >> 4U) & 7U);
    position.end_column = position.column + (second & 15U);
  } else if (form < kNoColumns) {
    line += form - kOneLine;
    position.column = 1U + bytes.next();
    position.end_column = 1U + bytes.next();
  } else if (form == kNoColumns) {
    line += bytes.signed_number();
  } else if (form == kLong) {
    line += bytes.signed_number();
    lines = bytes.number();
    position.column = sane(bytes.number());  // The column plus one, 0 for none.
    position.end_column = sane(bytes.number());
  }
  position.line = sane(line);
  if (position.column == 0 || position.end_column == 0 || position.line == 0)
    position.column = position.end_column = 0;
  else
    position.end_line = sane(line + lines);
  return entry;
}

// 3.10: Objects/lnotab_notes.txt. Pairs of bytes: instruction bytes, line delta; -128 for no line.
Entry next_pair(Bytes& bytes, std::int64_t& line) {
  constexpr std::int8_t kNoLine = -128;
  Entry entry{bytes.next()};
  const auto lines = static_cast<std::int8_t>(bytes.next());
  if (lines == kNoLine) return entry;
  line += lines;
  entry.position.line = sane(line);
  return entry;
}

}  // namespace

PythonPositions::PythonPositions() : positions_(1) {}

void PythonPositions::add_function(std::uint32_t minor_version, std::uint32_t first_line,
                                   std::span<const std::byte> table) {
  codes_.push_back({minor_version,
                    first_line,
                    std::string(reinterpret_cast<const char*>(table.data()), table.size()),
                    {}});
}

std::uint32_t PythonPositions::number_of(const CodePosition& position) {
  if (position.line == 0) return 0;
  const auto [known, is_new] =
      numbers_.try_emplace(position, static_cast<std::uint32_t>(positions_.size()));
  if (is_new) positions_.push_back(position);
  return known->second;
}

std::uint32_t PythonPositions::of_line(std::uint32_t line) {
  return number_of({.line = line});
}

void PythonPositions::read_table(Code& code) {
  const std::string table = std::exchange(code.table, {});
  Bytes bytes(table);
  std::int64_t line = code.first_line;
  std::uint64_t at = 0;
  const auto add = [&](std::uint64_t size, const CodePosition& position) {
    at += size;
    if (size != 0 && at <= std::numeric_limits<std::uint32_t>::max())
      code.pieces.push_back({static_cast<std::uint32_t>(at), number_of(position)});
  };
  if (code.minor_version < 10) {
    // 3.9: pairs as in 3.10, but the line delta applies after the pair's instructions.
    while (!bytes.empty()) {
      const std::uint8_t size = bytes.next();
      add(size, {.line = sane(line)});
      line += static_cast<std::int8_t>(bytes.next());
    }
    add(std::numeric_limits<std::uint32_t>::max() - at, {.line = sane(line)});
    return;
  }
  while (!bytes.empty()) {
    const std::optional<Entry> entry =
        code.minor_version == 10 ? next_pair(bytes, line) : next_location(bytes, line);
    if (!entry || bytes.ran_out()) return;
    add(entry->bytes, entry->position);
  }
}

std::uint32_t PythonPositions::at(std::uint64_t function, std::uint32_t offset) {
  if (function >= codes_.size()) return 0;
  Code& known = codes_[function];
  if (!known.table.empty() || (known.minor_version < 10 && known.pieces.empty())) read_table(known);
  const auto piece = std::ranges::upper_bound(known.pieces, offset, {}, &Piece::end);
  return piece == known.pieces.end() ? 0 : piece->position;
}

void resolve_positions(Trace& trace, const PythonPositions& positions) {
  for (TracePath& path : trace.paths) {
    const CodePosition& position = positions[path.line];
    path.line = position.line;
    path.column = position.column;
    path.end_line = position.end_line;
    path.end_column = position.end_column;
  }
  for (ThreadRecord& thread : trace.threads) {
    for (Event& event : thread.events) {
      if (!has_position(event.kind)) continue;
      const CodePosition& position = positions[event.line];
      event.line = position.line;
      event.return_address = std::uint64_t{position.column} << 32 | position.end_column;
    }
  }
}

}  // namespace optrace
