#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/builders/index_maker.h"

namespace optrace {

struct MakeProjectOptions {
  std::filesystem::path folder;  ///< Source folder of a C++ extension.
  std::filesystem::path python;  ///< A Python with the torch that the extension is built for.
  std::string name;              ///< Empty: the folder's name.
  std::filesystem::path output;  ///< Empty: the user's index folder.
  int jobs = 0;                  ///< As in MakeIndexOptions.
  std::uint64_t worker_memory = 0;
};

/// Indexes a C++ extension of PyTorch: its functions, call sites and registrations, and the ops
/// that its TORCH_LIBRARY blocks define. The compiler arguments come from compile_commands.json in
/// the folder or its build folder, if there is one. The index's note `project` is the name. An op's
/// line is that of its definition, in the file that its registration names. Throws as make_index
/// does.
MadeIndex make_project_index(const MakeProjectOptions& options);

/// Returns the arguments of a command of compile_commands.json that matter for parsing: folders,
/// macros, the standard, forced includes, the processor. `directory` is the entry's directory.
std::vector<std::string> parse_arguments_of(const std::vector<std::string>& command,
                                            const std::string& directory);

/// Splits a command line into words as a POSIX shell does, without expansions.
std::vector<std::string> split_command(std::string_view command);

/// Returns the string literals after the first parenthesis at or after a line (from 1) of C++ text,
/// concatenated as by the compiler: the schema of an `m.def(...)`. Empty if there are none.
std::string string_at(std::string_view text, std::uint32_t line);

}  // namespace optrace
