#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/elf/module_symbols.h"

namespace optrace {

/// A line of a source file.
struct DebugPlace {
  std::string file;        ///< As the compiler was told, made absolute by its working folder.
  std::uint32_t line = 0;  ///< From 1.
};

/// A function whose body the compiler copied into its caller.
struct InlinedFunction {
  std::string symbol;  ///< Mangled; empty for functions with internal linkage.
  std::string name;    ///< Qualified, without parameters. Used if there is no symbol.
  std::optional<DebugPlace> definition;
  std::uint32_t call_line = 0;  ///< In the file of the function around it; 0 if unknown.
  bool operator==(const InlinedFunction& other) const;
};

/// The source of one call instruction.
struct DebugCall {
  std::vector<InlinedFunction>
      inlined;             ///< The inlined functions that contain it, outermost first.
  std::uint32_t line = 0;  ///< Of the call, in the file of the innermost function; 0 if unknown.
};

/// The debug info (DWARF) of an ELF file. Everything is read when it is first asked for, and only
/// the compilation units of the addresses that are. All contents of the file are untrusted. Not
/// safe for use by several threads at once.
class DebugInfo {
 public:
  /// Opens the debug info of the module at `path`, from itself or from a separate file. Returns
  /// null if the file can't be read, is not a build with this build-id (lower-case hex), or has no
  /// debug info that can be read: split DWARF has no functions, and dwz's common files are not
  /// supported.
  static std::unique_ptr<DebugInfo> open(const std::filesystem::path& path,
                                         const std::string& build_id);

  /// Reads the debug info of this file alone. Returns null as above.
  static std::unique_ptr<DebugInfo> read(MappedFile file, const std::string& build_id);
  ~DebugInfo();
  DebugInfo(const DebugInfo&) = delete;
  DebugInfo& operator=(const DebugInfo&) = delete;

  /// Returns where the function that contains the code at `address` (as linked) is defined.
  std::optional<DebugPlace> definition_at(std::uint64_t address);

  /// Returns the source of the call before a return address (as linked).
  DebugCall call_before(std::uint64_t return_address);

 private:
  struct State;
  explicit DebugInfo(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace optrace
