#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "platform/files/file_trust.h"
#include "platform/files/mapped_file.h"

namespace optrace {

/// A function of an ELF file. Strings live as long as the ModuleSymbols that returned them.
struct NativeFunction {
  std::uint64_t address = 0;  ///< First byte, as linked (st_value).
  std::uint64_t size = 0;     ///< In bytes; 0 if unknown.
  std::string_view symbol;    ///< Mangled name; empty if only .eh_frame describes the function.
  bool local = false;         ///< STB_LOCAL: unique only in its source file.
  bool resolver = false;      ///< STT_GNU_IFUNC: run by the dynamic linker, not by callers.
};

/// A name of the function at an address, or of the one that the loader writes into a slot there.
struct NamedAddress {
  std::uint64_t address = 0;  ///< As linked.
  std::string_view symbol;
};

/// A variable of an ELF file.
struct NativeObject {
  std::uint64_t address = 0;  ///< As linked.
  std::uint64_t size = 0;     ///< Bytes.
};

/// A pointer in the data of an ELF file.
struct DataPointer {
  std::uint64_t place = 0;   ///< Address of the pointer, as linked.
  std::uint64_t target = 0;  ///< As linked; 0 if the symbol is defined in another file.
  std::string_view symbol;   ///< Empty if the pointer has no dynamic symbol.
};

/// The functions of one ELF file. Names stay in the mapped file; the table of functions takes 12
/// bytes per function and is built at the first query. Uses `.symtab` if there is one, else
/// `.dynsym`; `.eh_frame` gives the bounds of functions that no symbol names. All contents of the
/// file are validated. Not safe for use by several threads at once.
class ModuleSymbols {
 public:
  /// Throws Error(usage) if `path` can't be read, is not a 64-bit x86-64 ELF file, or is corrupt.
  explicit ModuleSymbols(const std::filesystem::path& path);
  explicit ModuleSymbols(MappedFile file);

  const std::filesystem::path& path() const noexcept { return file_.path(); }

  /// The GNU build-id in lower-case hex; empty if the file has none.
  const std::string& build_id() const noexcept { return build_id_; }

  /// True if .symtab is missing, so that only exported functions have names.
  bool stripped() const noexcept { return stripped_; }

  /// True if the file itself has debug info (.debug_info).
  bool has_debug_info() const noexcept { return has_debug_info_; }

  /// The part of the file with code for GPUs, which nothing here reads; empty if there is none. In
  /// torch's libraries for CUDA, it is most of the file.
  const FilePart& gpu_code() const noexcept { return gpu_code_; }

  /// The name of the separate file with its debug info (.gnu_debuglink); empty if there is none.
  std::string_view debug_link() const noexcept { return debug_link_; }

  /// The named functions, sorted by address, one per address. If a function has several names, the
  /// preferred one has a size, is global, is Fortran's (sgemm_ before SGEMM, because C++ calls
  /// sgemm_), and sorts first (C1 before C2), in this order of precedence.
  std::size_t function_count() const { return table().starts.size(); }
  NativeFunction function(std::size_t position) const;

  /// Returns the function that contains the code at `address`. For a `.cold` part, this is the
  /// function that it was split from.
  std::optional<NativeFunction> find(std::uint64_t address) const;

  /// Same as find(), but returns a `.cold` part as itself.
  std::optional<NativeFunction> find_piece(std::uint64_t address) const;

  /// Returns the object (variable) with this mangled name; the first one if several local objects
  /// have it.
  std::optional<NativeObject> find_object(std::string_view symbol) const;

  /// Calls `visit(object, name)` for every named object, in the file's order.
  template <typename Visit>
  void for_each_object(Visit visit) const {
    for (std::size_t index = 0; index < symbol_count_; ++index) {
      const Symbol entry = symbol(index);
      if (is_object(entry)) visit(NativeObject{entry.value, entry.size}, name(entry));
    }
  }

  /// Returns true if `part` is a `.cold` part that the compiler split from `function`.
  bool is_cold_part(const NativeFunction& part, const NativeFunction& function) const;

  /// Returns the name of the STT_FILE symbol above a local symbol, e.g. `Convolution.cpp`; empty
  /// for other functions.
  std::string_view source_file(const NativeFunction& function) const;

  /// Calls `visit(address, name)` for every name of a function at one of `addresses` (ascending),
  /// including names folded to the same address.
  template <typename Visit>
  void for_each_name_at(std::span<const std::uint64_t> addresses, Visit visit) const {
    for (std::size_t index = 0; index < symbol_count_; ++index) {
      const Symbol entry = symbol(index);
      if (std::ranges::binary_search(addresses, entry.value) && is_function(entry))
        visit(entry.value, name(entry));
    }
  }

  /// Calls `visit(address, name)` for every name of a function that is neither a resolver nor a
  /// `.cold` part, aliases included, in the file's order.
  template <typename Visit>
  void for_each_name(Visit visit) const {
    for (std::size_t symbol = 0; symbol < symbol_count_; ++symbol)
      if (const auto named = callable(symbol)) visit(named->first, named->second);
  }

  /// Calls `visit(NativeFunction)` for each named function and each `.cold` part, aliases included,
  /// in the file's order.
  template <typename Visit>
  void for_each_piece(Visit visit) const {
    for (std::size_t index = 0; index < symbol_count_; ++index) {
      const Symbol entry = symbol(index);
      if (is_function(entry)) visit(NativeFunction{entry.value, entry.size, name(entry)});
    }
  }

  /// The file names of the libraries that this file needs (DT_NEEDED).
  std::vector<std::string_view> needed() const;

  /// Returns the code at `address`, at most `size` bytes. Returns fewer where the segment or the
  /// file ends, and none outside executable segments.
  std::span<const std::byte> code(std::uint64_t address, std::uint64_t size) const;

  /// The executable segments, as (address, bytes in the file).
  const std::vector<std::pair<std::uint64_t, std::span<const std::byte>>>& executable_segments()
      const;

  /// True if the file was truncated while it was read, so that parts of it read as zeros.
  bool was_cut() const noexcept { return file_.was_cut(); }

  /// Returns the starts of functions and parts that a symbol or an FDE defines, ascending and
  /// unique.
  std::vector<std::uint64_t> starts() const;

  /// Returns the first address after `address` at which a function with a name or an FDE starts.
  std::optional<std::uint64_t> next_start(std::uint64_t address) const;

  /// Returns the last address up to `address` at which a function with a name or an FDE starts.
  std::optional<std::uint64_t> last_start(std::uint64_t address) const;

  /// Returns true if, according to .eh_frame, the return address is at the top of the stack at
  /// `address`. This is the case directly after a call and before a tail call, and distinguishes
  /// unnamed functions from unnamed `.cold` parts and the PLT. Returns nullopt if call frame
  /// information is missing or not supported.
  std::optional<bool> return_address_on_top(std::uint64_t address) const;

  /// Returns the name of the dynamic symbol whose address the loader writes into the GOT slot at
  /// `address`; empty if there is none.
  std::string_view dynamic_symbol_of_slot(std::uint64_t address) const;

  /// Calls `visit(address, name)` for each GOT slot into which the loader writes the address of a
  /// dynamic symbol, by address.
  template <typename Visit>
  void for_each_slot(Visit visit) const {
    for (const NamedAddress& slot : slots()) visit(slot.address, slot.symbol);
  }

  /// Calls `visit(DataPointer)` for each pointer in the file's data that the loader sets, in the
  /// file's order. A pointer to a dynamic symbol has the symbol's name.
  void for_each_data_pointer(const std::function<void(const DataPointer&)>& visit) const;

  /// Returns the NUL-terminated string at `address` outside of the code; empty if there is none.
  std::string_view text_at(std::uint64_t address) const;

  /// Returns the address at which this file defines the dynamic function `name`, if it defines it
  /// and has a slot for it.
  std::optional<std::uint64_t> definition(std::string_view name) const;

 private:
  struct Segment {
    std::uint64_t address = 0;
    std::span<const std::byte> bytes;  ///< Pass to MappedFile::load() before use, like executable_.
  };
  struct Fde {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::span<const std::byte> cie_instructions;
    std::span<const std::byte> instructions;
    std::uint64_t code_alignment = 1;
  };
  /// A relocation table of the dynamic linker, and the symbols that it refers to.
  struct Relocations {
    std::span<const std::byte> entries;
    std::span<const std::byte> symbols;
    std::span<const std::byte> names;
  };
  /// A decoded entry of a symbol table.
  struct Symbol {
    std::uint64_t value = 0;
    std::uint64_t size = 0;
    std::uint32_t name = 0;
    std::uint8_t type = 0;
    std::uint8_t binding = 0;
    bool defined = false;
  };

  class HeaderReader;

  void read_frame_header(std::uint64_t address, std::uint64_t size);
  Symbol symbol(std::size_t index) const;
  std::string_view name(const Symbol& symbol) const;
  bool is_function(const Symbol& symbol) const;
  static bool is_object(const Symbol& symbol);
  std::optional<std::pair<std::uint64_t, std::string_view>> callable(std::size_t index) const;
  std::span<const std::byte> bytes_at(std::uint64_t address, std::uint64_t size) const;
  std::size_t fde_count() const { return frame_table_.size() / (2 * sizeof(std::int32_t)); }
  std::uint64_t fde_start(std::size_t entry) const;
  std::uint64_t from_frame_table(std::size_t offset) const;
  std::size_t fdes_up_to(std::uint64_t address) const;
  std::optional<Fde> fde_at(std::uint64_t address) const;
  std::optional<Fde> parse_fde(std::uint64_t address) const;
  std::optional<std::size_t> position_of(std::uint64_t address) const;
  std::optional<NativeFunction> parent_of_cold(const NativeFunction& part) const;
  [[noreturn]] void fail(const char* reason) const;

  MappedFile file_;
  std::string build_id_;
  bool stripped_ = true;
  bool has_debug_info_ = false;
  FilePart gpu_code_;
  std::string_view debug_link_;
  std::vector<Segment> segments_;
  std::vector<std::pair<std::uint64_t, std::span<const std::byte>>> executable_;
  std::span<const std::byte> symbols_;  ///< Elf64_Sym entries, possibly unaligned.
  std::span<const std::byte> names_;
  std::size_t symbol_count_ = 0;
  std::vector<Relocations> relocations_;
  std::span<const std::byte> dynamic_;  ///< Elf64_Dyn entries.
  std::uint64_t frame_header_address_ = 0;
  /// Pairs of int32 (start, FDE), relative to the header.
  std::span<const std::byte> frame_table_;

  /// One entry per function, sorted by address.
  struct Table {
    std::vector<std::uint32_t> starts;  ///< Offsets from base_.
    std::vector<std::uint32_t> sizes;
    std::vector<std::uint32_t> symbols;       ///< Index of the naming symbol.
    std::vector<std::uint32_t> file_symbols;  ///< Indexes of STT_FILE symbols, ascending.
  };
  const Table& table() const;
  Table collect_functions() const;
  /// Returns the slots of for_each_slot(), by address.
  const std::vector<NamedAddress>& slots() const;
  /// Calls `visit(relocation, symbol, name)` for each relocation of a slot, in the file's order.
  template <typename Visit>
  void for_each_slot_relocation(Visit visit) const;

  std::uint64_t base_ = 0;  ///< The first executable address.
  mutable std::optional<Table> table_;
  /// hash32 << 32 | symbol index, sorted. Built when a `.cold` part is first looked up.
  mutable std::vector<std::uint64_t> by_name_;
  mutable std::optional<std::vector<NamedAddress>> slots_;
  mutable std::optional<std::unordered_map<std::string_view, std::uint64_t>> definitions_;
  /// Part's address to its parent's.
  mutable std::map<std::uint64_t, std::uint64_t> cold_parents_;
};

}  // namespace optrace
