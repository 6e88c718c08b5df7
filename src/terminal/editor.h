#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// The command line that starts an editor.
struct EditorCommand {
  std::vector<std::string> arguments;
  bool at_line = false;  ///< False: the editor is unknown and gets only the file.
};

/// `editor` is the value of $VISUAL or $EDITOR, such as `code --wait`. Throws Error(usage) if it
/// names no program.
EditorCommand editor_command(std::string_view editor, const std::filesystem::path& file,
                             std::uint32_t line);

/// Opens the user's editor and waits for it to end. Throws Error(usage) if neither variable is set,
/// Error(failed) if the editor can't be started or fails.
void open_in_editor(const std::filesystem::path& file, std::uint32_t line);

}  // namespace optrace
