#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace optrace {

/// A function in the output of single_step_write (tests/truth/single_step.h).
struct TruthFunction {
  std::string module;  ///< Path.
  std::uint64_t address = 0;
  std::string symbol;
};

struct TruthEntry {
  std::uint32_t function = 0;  ///< Index into functions.
  std::uint32_t parent = 0;    ///< Index of an earlier entry; kNone for none.
  std::string how;             ///< `call`, `tail`, `turn` or `shift`.
  std::uint64_t stack_pointer = 0;
};

struct Truth {
  std::vector<TruthFunction> functions;
  std::vector<TruthEntry> entries;
  std::uint64_t steps = 0;
};

/// Throws Error(usage) if the file is truncated or was not written by single_step_write.
Truth read_truth(const std::filesystem::path& path);

}  // namespace optrace
