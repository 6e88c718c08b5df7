#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/making/index_maker.h"

namespace optrace {

struct MakeProjectOptions {
  std::filesystem::path folder;  ///< Of a C++ extension's source.
  std::filesystem::path python;  ///< A Python with the torch that it is built for.
  std::string name;              ///< Empty: the folder's.
  std::filesystem::path output;  ///< Empty: the user's index folder.
  int jobs = 0;                  ///< As in MakeIndexOptions.
  std::uint64_t worker_memory = 0;
};

/// Indexes a C++ extension of PyTorch: its functions, call sites and registrations, and the ops
/// that its TORCH_LIBRARY blocks define. The compiler's arguments come from the folder's (or its
/// build folder's) compile_commands.json, where there is one. The index's note `project` is the
/// name; an op's line is that of its definition, whose file its registration names. Throws as
/// make_index does.
MadeIndex make_project_index(const MakeProjectOptions& options);

/// What matters of a command of compile_commands.json to somebody who only parses: folders,
/// macros, the standard, headers included by force, the processor. `directory` is its entry's.
std::vector<std::string> parse_arguments_of(const std::vector<std::string>& command,
                                            const std::string& directory);

/// The words of a command line, as a POSIX shell would see them, without expansions.
std::vector<std::string> split_command(std::string_view command);

/// The string literals that follow the first parenthesis at or after a line (from 1) of C++ text,
/// joined as the compiler joins them: the schema of an `m.def(...)`. Empty where there is none.
std::string string_at(std::string_view text, std::uint32_t line);

}  // namespace optrace
