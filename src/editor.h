#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// How an editor is started.
struct EditorCommand {
  std::vector<std::string> arguments;
  bool at_line = false;  ///< False: the editor is not known, and gets the file only.
};

/// `editor` is $VISUAL's or $EDITOR's value, such as `code --wait`. Throws Error(usage) when it
/// names no program.
EditorCommand editor_command(std::string_view editor, const std::filesystem::path& file,
                             std::uint32_t line);

/// Opens the user's editor and waits for it to end. Throws Error(usage) when neither variable is
/// set, Error(failed) when the editor can't be started or fails.
void open_in_editor(const std::filesystem::path& file, std::uint32_t line);

}  // namespace optrace
