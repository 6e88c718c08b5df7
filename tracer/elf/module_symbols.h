#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "platform/mapped_file.h"

namespace optrace {

/// A function of an ELF file. Texts live as long as the ModuleSymbols that gave them.
struct NativeFunction {
  std::uint64_t address = 0;  ///< Of its first byte, as linked (st_value).
  std::uint64_t size = 0;     ///< Bytes; 0 if nothing tells.
  std::string_view symbol;    ///< Mangled; empty when only .eh_frame knows the function.
  bool local = false;         ///< STB_LOCAL: unique in its source file only.
  bool resolver = false;      ///< STT_GNU_IFUNC: run by the dynamic linker, not by callers.
};

/// A variable of an ELF file.
struct NativeObject {
  std::uint64_t address = 0;  ///< As linked.
  std::uint64_t size = 0;     ///< Bytes.
};

/// The functions of one ELF file, read in place: names stay in the mapped file, what is kept takes
/// 12 bytes a function, and is only made when a function is first asked for. `.symtab` is used
/// where there is one, else `.dynsym`; `.eh_frame` tells the bounds of functions that no symbol
/// names. Nothing in the file is believed without a check. Not for use by several threads at once.
class ModuleSymbols {
 public:
  /// Throws Error(usage) when `path` can't be read, or is no 64-bit x86-64 ELF file, or corrupt.
  explicit ModuleSymbols(const std::filesystem::path& path);
  explicit ModuleSymbols(MappedFile file);

  const std::filesystem::path& path() const noexcept { return file_.path(); }

  /// The GNU build-id in lower-case hex; empty if the file has none.
  const std::string& build_id() const noexcept { return build_id_; }

  /// True when .symtab is missing: only exported functions have names.
  bool stripped() const noexcept { return stripped_; }

  /// The named functions, one for each address, in the order of their addresses. Of several names
  /// the one that is global, sized, Fortran's (sgemm_ before SGEMM: the one that C++ calls) and
  /// first by name (C1 before C2) is kept.
  std::size_t function_count() const { return table().starts.size(); }
  NativeFunction function(std::size_t position) const;

  /// The function that holds the code at `address`: for a `.cold` part the one it was split from.
  std::optional<NativeFunction> find(std::uint64_t address) const;

  /// As find, but a `.cold` part stands for itself.
  std::optional<NativeFunction> find_piece(std::uint64_t address) const;

  /// The object (variable) of this mangled name; of several that are local, the first.
  std::optional<NativeObject> find_object(std::string_view symbol) const;

  /// True for a `.cold` part that the compiler split from `function`.
  bool is_cold_part(const NativeFunction& part, const NativeFunction& function) const;

  /// The STT_FILE name above a local symbol, `Convolution.cpp`; empty for others.
  std::string_view source_file(const NativeFunction& function) const;

  /// Calls `visit(address, name)` for every name that a function at one of `addresses` (ascending)
  /// has, the folded ones too.
  template <typename Visit>
  void for_each_name_at(std::span<const std::uint64_t> addresses, Visit visit) const {
    for (std::size_t index = 0; index < symbol_count_; ++index) {
      const Symbol entry = symbol(index);
      if (std::ranges::binary_search(addresses, entry.value) && is_function(entry)) {
        visit(entry.value, name(entry));
      }
    }
  }

  /// Calls `visit(address, name)` for every name of a function that is neither a resolver nor a
  /// `.cold` part, aliases included, in the file's order.
  template <typename Visit>
  void for_each_name(Visit visit) const {
    for (std::size_t symbol = 0; symbol < symbol_count_; ++symbol) {
      if (const auto named = callable(symbol)) visit(named->first, named->second);
    }
  }

  /// The file names of the libraries that this one asks the dynamic linker for (DT_NEEDED).
  std::vector<std::string_view> needed() const;

  /// The bytes of code from `address`, at most `size`: fewer where the segment or the file ends,
  /// none outside executable segments.
  std::span<const std::byte> code(std::uint64_t address, std::uint64_t size) const;

  /// What the executable segments span, as (address, bytes in the file).
  const std::vector<std::pair<std::uint64_t, std::span<const std::byte>>>& executable_segments()
      const;

  /// Whether the file was made smaller while it was read, so that parts of it were zeros.
  bool was_cut() const noexcept { return file_.was_cut(); }

  /// Calls `visit(address)` for every start of a function or part that a symbol or an FDE tells of,
  /// in no order, some twice.
  template <typename Visit>
  void for_each_start(Visit visit) const {
    for (const std::uint32_t offset : table().starts) visit(base_ + offset);
    for (std::size_t entry = 0; entry < fde_count(); ++entry) {
      if (!code(fde_start(entry), 1).empty()) visit(fde_start(entry));
    }
  }

  /// The first address behind `address` at which a function with a name or an FDE starts.
  std::optional<std::uint64_t> next_start(std::uint64_t address) const;

  /// The last address up to `address` at which a function with a name or an FDE starts.
  std::optional<std::uint64_t> last_start(std::uint64_t address) const;

  /// True when, by .eh_frame, the return address is at the top of the stack at `address`, as it is
  /// behind a call and before a tail call. Tells unnamed functions from unnamed `.cold` parts and
  /// the PLT. Nothing where call frame information is missing or not understood.
  std::optional<bool> return_address_on_top(std::uint64_t address) const;

  /// The name of the dynamic symbol whose address the loader writes into the slot (of the GOT) at
  /// `address`; empty if it writes none.
  std::string_view dynamic_symbol_of_slot(std::uint64_t address) const;

  /// Where this file defines the dynamic symbol `name`, if it does and has a slot for it.
  std::optional<std::uint64_t> definition(std::string_view name) const;

 private:
  struct Segment {
    std::uint64_t address = 0;
    std::span<const std::byte> bytes;  ///< To be loaded, as those of executable_.
  };
  struct Fde {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::span<const std::byte> cie_instructions;
    std::span<const std::byte> instructions;
    std::uint64_t code_alignment = 1;
  };
  /// A table of the dynamic linker's relocations, and the symbols that they name.
  struct Relocations {
    std::span<const std::byte> entries;
    std::span<const std::byte> symbols;
    std::span<const std::byte> names;
  };
  /// A symbol table's entry, decoded.
  struct Symbol {
    std::uint64_t value = 0;
    std::uint64_t size = 0;
    std::uint32_t name = 0;
    std::uint8_t type = 0;
    std::uint8_t binding = 0;
    bool defined = false;
  };

  void read_headers();
  void read_sections();
  /// Whether a table of this size can be read too. Those of a file that is sound have together at
  /// most its size, but a header can name one table many times.
  bool tables_fit(std::uint64_t size);
  void read_notes(std::span<const std::byte> notes);
  void read_frame_header(std::uint64_t address, std::uint64_t size);
  Symbol symbol(std::size_t index) const;
  std::string_view name(const Symbol& symbol) const;
  bool is_function(const Symbol& symbol) const;
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
  std::uint64_t table_bytes_ = 0;  ///< Of the tables that were read.
  std::string build_id_;
  bool stripped_ = true;
  std::vector<Segment> segments_;
  std::vector<std::pair<std::uint64_t, std::span<const std::byte>>> executable_;
  std::span<const std::byte> symbols_;  ///< Elf64_Sym entries, perhaps unaligned.
  std::span<const std::byte> names_;
  std::size_t symbol_count_ = 0;
  std::vector<Relocations> relocations_;
  std::span<const std::byte> dynamic_;  ///< Elf64_Dyn entries.
  std::uint64_t frame_header_address_ = 0;
  std::span<const std::byte> frame_table_;  ///< Pairs of int32: start, FDE; relative to the header.

  /// One entry a function, by address.
  struct Table {
    std::vector<std::uint32_t> starts;  ///< Offset from base_.
    std::vector<std::uint32_t> sizes;
    std::vector<std::uint32_t> symbols;       ///< Index of the symbol that names it.
    std::vector<std::uint32_t> file_symbols;  ///< Indexes of STT_FILE symbols, ascending.
  };
  const Table& table() const;
  Table collect_functions() const;

  std::uint64_t base_ = 0;  ///< The first executable address.
  mutable std::optional<Table> table_;
  /// hash32 << 32 | index of the symbol, sorted; made for the first `.cold` part that is looked up.
  mutable std::vector<std::uint64_t> by_name_;
  mutable std::optional<std::map<std::uint64_t, std::string_view>> slots_;
  mutable std::unordered_map<std::string_view, std::uint64_t> definitions_;  ///< Made with slots_.
  mutable std::map<std::uint64_t, std::uint64_t> cold_parents_;  ///< Part's to parent's address.
};

}  // namespace optrace
