#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace optrace {

struct Trace;

/// A range of Python source. All values count from 1; 0 is unknown. Columns count UTF-8 bytes, and
/// the end is exclusive.
struct CodePosition {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t end_line = 0;
  std::uint32_t end_column = 0;
  auto operator<=>(const CodePosition&) const = default;
};

/// Numbers the source positions that code objects define for their instructions, so that code that
/// counts by position only compares numbers.
class PythonPositions {
 public:
  PythonPositions();

  /// Adds the next function of a recording, starting at 0. `table` is co_lnotab (3.9) or
  /// co_linetable. A malformed table yields no positions.
  void add_function(std::uint32_t minor_version, std::uint32_t first_line,
                    std::span<const std::byte> table);

  /// Returns the number of the position at byte `offset` of a function's instructions; 0 if
  /// unknown.
  std::uint32_t at(std::uint64_t function, std::uint32_t offset);

  /// Returns the number of a position with a known line only; 0 for line 0.
  std::uint32_t of_line(std::uint32_t line);

  /// Returns the position with this number.
  const CodePosition& operator[](std::uint32_t number) const { return positions_[number]; }

 private:
  struct Piece {
    std::uint32_t end;  // The offset after its last instruction.
    std::uint32_t position;
  };
  struct Code {
    std::uint32_t minor_version = 0;
    std::uint32_t first_line = 0;
    std::string table;  // Cleared when it is read.
    std::vector<Piece> pieces;
  };

  std::uint32_t number_of(const CodePosition& position);
  void read_table(Code& code);

  std::vector<Code> codes_;  // By function.
  std::vector<CodePosition> positions_;
  std::map<CodePosition, std::uint32_t> numbers_;
};

/// Replaces position numbers in `line` of paths and events by the positions.
void resolve_positions(Trace& trace, const PythonPositions& positions);

}  // namespace optrace
