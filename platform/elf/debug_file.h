#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <elfutils/libdw.h>
#include <libelf.h>

#include "platform/elf/module_symbols.h"

namespace optrace {

/// Returns the files that may have the debug info of a module: the module itself, if it has a
/// .debug_info section, and those that distributions install separately: by build-id below
/// /usr/lib/debug, and by .gnu_debuglink. Only files that exist; none if the module has no
/// build-id, because nothing else shows that a file belongs to it.
std::vector<std::filesystem::path> debug_files(const ModuleSymbols& module);

/// An ELF file with debug info, opened for libdw. Files are refused whose reading would take more
/// memory than their size justifies, or would open other files that they name.
class DebugFile {
 public:
  /// Returns null if the file is not a build with this build-id (lower-case hex) for x86-64, or has
  /// no debug info that can be read.
  static std::unique_ptr<DebugFile> open(MappedFile file, const std::string& build_id);

  Elf* elf() const { return elf_.get(); }
  Dwarf* dwarf() const { return dwarf_.get(); }

 private:
  struct ElfEnd {
    void operator()(Elf* elf) const { elf_end(elf); }
  };
  struct DwarfEnd {
    void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
  };

  explicit DebugFile(MappedFile file);
  bool start(const std::string& build_id);

  const MappedFile file_;
  std::vector<char> copy_;  ///< Of the file, if it has compressed sections.
  std::unique_ptr<Elf, ElfEnd> elf_;
  std::unique_ptr<Dwarf, DwarfEnd> dwarf_;  ///< Uses elf_.
};

}  // namespace optrace
