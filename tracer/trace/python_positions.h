#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace optrace {

struct Trace;

/// A piece of Python source. All from 1, columns in bytes of UTF-8, the end exclusive; 0: unknown.
struct CodePosition {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t end_line = 0;
  std::uint32_t end_column = 0;
  auto operator<=>(const CodePosition&) const = default;
};

/// The positions that code objects give for their instructions, each with a number, so that
/// what is counted by position need compare only that.
class PythonPositions {
 public:
  PythonPositions();

  /// What a recording says of the next function, from 0: the bytes of co_lnotab (3.9) or
  /// co_linetable. Bytes that make no sense give no positions.
  void add_function(std::uint32_t minor_version, std::uint32_t first_line,
                    std::span<const std::byte> table);

  /// The number of the position of the instruction `offset` bytes into a function's; 0: unknown.
  std::uint32_t at(std::uint64_t function, std::uint32_t offset);

  /// The number of a position of which the line alone is known; 0 for line 0.
  std::uint32_t of_line(std::uint32_t line);

  /// By its number.
  const CodePosition& operator[](std::uint32_t number) const { return positions_[number]; }

 private:
  struct Piece {
    std::uint32_t end;  // The offset behind its last instruction.
    std::uint32_t position;
  };
  struct Code {
    std::uint32_t minor_version = 0;
    std::uint32_t first_line = 0;
    std::string table;  // Until it is read.
    std::vector<Piece> pieces;
  };

  std::uint32_t number_of(const CodePosition& position);
  void read_table(Code& code);

  std::vector<Code> codes_;  // By function.
  std::vector<CodePosition> positions_;
  std::map<CodePosition, std::uint32_t> numbers_;
};

/// Puts positions in the place of their numbers, which the `line` of paths and events was until
/// now.
void resolve_positions(Trace& trace, const PythonPositions& positions);

}  // namespace optrace
