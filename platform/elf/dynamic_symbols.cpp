#include "platform/elf/dynamic_symbols.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include <elf.h>
#include <fmt/core.h>

#include "platform/elf/elf_text.h"
#include "platform/elf/read_at.h"
#include "platform/error.h"
#include "platform/files/mapped_file.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxImportLength = 4096;

class DynamicSymbols {
 public:
  explicit DynamicSymbols(const std::filesystem::path& path) : file_(path) {
    read_headers();
    read_dynamic_section();
  }

  DynamicImports imports() {
    read_versions();
    DynamicImports imports;
    for (const std::uint64_t offset : needed_)
      if (const auto name = text(offset); !name.empty()) imports.needed.emplace_back(name);
    const std::uint64_t count = symbol_count();
    for (std::uint64_t i = 1; i < count; ++i) {
      const auto symbol = at<Elf64_Sym>(symbols_ + i * sizeof(Elf64_Sym));
      if (!symbol) fail("its symbol table lies outside the file");
      const unsigned binding = ELF64_ST_BIND(symbol->st_info);
      const std::string_view name = text(symbol->st_name);
      if (symbol->st_shndx != SHN_UNDEF || name.empty() ||
          (binding != STB_GLOBAL && binding != STB_WEAK))
        continue;
      DynamicImport import{
          .name = std::string(name), .version = {}, .library = {}, .weak = binding == STB_WEAK};
      if (version_numbers_ != 0) {
        const auto number = at<Elf64_Half>(version_numbers_ + i * sizeof(Elf64_Half));
        const auto version = versions_.find(number.value_or(0) & kVersionMask);
        if (version != versions_.end()) std::tie(import.version, import.library) = version->second;
      }
      imports.symbols.push_back(std::move(import));
    }
    return imports;
  }

  std::vector<DynamicExport> exports() {
    read_defined_versions();
    std::vector<DynamicExport> exports;
    const auto table = hash_table();
    if (!table) return exports;
    const std::uint64_t end = end_of_exports(*table);
    for (std::uint64_t i = table->first; i < end; ++i) {
      const auto symbol = at<Elf64_Sym>(symbols_ + i * sizeof(Elf64_Sym));
      if (!symbol) fail("its symbol table lies outside the file");
      // The versions themselves are absolute symbols.
      if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS) continue;
      DynamicExport one{.name = std::string(text(symbol->st_name)), .version = {}};
      if (version_numbers_ != 0) {
        const auto number = at<Elf64_Half>(version_numbers_ + i * sizeof(Elf64_Half));
        const auto version = versions_.find(number.value_or(0) & kVersionMask);
        if (version != versions_.end()) one.version = version->second.first;
      }
      exports.push_back(std::move(one));
    }
    return exports;
  }

  std::string_view soname() const { return soname_ == 0 ? std::string_view() : text(soname_); }

  /// Looks a name up in DT_GNU_HASH, as the dynamic linker does, but without its Bloom filter.
  bool exports(std::string_view name) const {
    const auto table = hash_table();
    if (!table) return false;
    const std::uint32_t hash = gnu_hash(name);
    std::uint64_t symbol =
        at<Elf64_Word>(table->buckets + hash % table->count * sizeof(Elf64_Word)).value_or(0);
    if (symbol < table->first) return false;  // An empty bucket.
    for (;; ++symbol) {
      const auto other =
          at<Elf64_Word>(table->chains + (symbol - table->first) * sizeof(Elf64_Word));
      if (!other) return false;
      // The lowest bit marks the end of a chain.
      if ((*other | 1U) == (hash | 1U) && is_exported(symbol, name)) return true;
      if ((*other & 1U) != 0) return false;
    }
  }

 private:
  /// DT_GNU_HASH.
  struct HashTable {
    std::uint64_t count;    ///< Of the buckets.
    std::uint64_t first;    ///< The number of the first symbol in the table.
    std::uint64_t buckets;  ///< Address.
    std::uint64_t chains;   ///< Address.
  };

  std::optional<HashTable> hash_table() const {
    const auto count = at<Elf64_Word>(gnu_hash_);
    const auto first = at<Elf64_Word>(gnu_hash_ + sizeof(Elf64_Word));
    const auto filters = at<Elf64_Word>(gnu_hash_ + 2 * sizeof(Elf64_Word));
    if (gnu_hash_ == 0 || !count || !first || !filters || *count == 0) return std::nullopt;
    const std::uint64_t buckets =
        gnu_hash_ + 4 * sizeof(Elf64_Word) + std::uint64_t{*filters} * sizeof(Elf64_Xword);
    return HashTable{*count, *first, buckets, buckets + std::uint64_t{*count} * sizeof(Elf64_Word)};
  }

  static constexpr unsigned kVersionMask = 0x7FFF;  // The highest bit marks a hidden symbol.

  static std::uint32_t gnu_hash(std::string_view name) {
    std::uint32_t hash = 5381;
    for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
    return hash;
  }

  bool is_exported(std::uint64_t number, std::string_view name) const {
    const auto symbol = at<Elf64_Sym>(symbols_ + number * sizeof(Elf64_Sym));
    return symbol && symbol->st_shndx != SHN_UNDEF && text(symbol->st_name) == name;
  }

  [[noreturn]] void fail(const char* reason) const {
    throw Error(ExitStatus::usage,
                fmt::format("cannot read the library {}: {}", file_.path().string(), reason),
                "Reinstall the package that it belongs to.");
  }

  void read_headers() {
    const auto header = read_at<Elf64_Ehdr>(file_.bytes(), 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
      fail("it is not an ELF file");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_machine != EM_X86_64)
      fail("it is not for x86-64");
    if (header->e_phentsize != sizeof(Elf64_Phdr)) fail("it has no program headers");
    for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
      const auto entry =
          read_at<Elf64_Phdr>(file_.bytes(), header->e_phoff + i * sizeof(Elf64_Phdr));
      if (!entry) fail("its program headers lie outside the file");
      if (entry->p_type == PT_LOAD) segments_.push_back(*entry);
      if (entry->p_type == PT_DYNAMIC) dynamic_ = *entry;
    }
    if (!dynamic_) fail("it is not linked dynamically");
  }

  void read_dynamic_section() {
    if (!dynamic_) return;
    for (std::uint64_t i = 0; i < dynamic_->p_filesz / sizeof(Elf64_Dyn); ++i) {
      const auto entry =
          read_at<Elf64_Dyn>(file_.bytes(), dynamic_->p_offset + i * sizeof(Elf64_Dyn));
      if (!entry || entry->d_tag == DT_NULL) break;
      const std::uint64_t value = entry->d_un.d_val;
      switch (entry->d_tag) {
        case DT_NEEDED:
          needed_.push_back(value);
          break;
        case DT_SONAME:
          soname_ = value;
          break;
        case DT_STRTAB:
          texts_ = value;
          break;
        case DT_STRSZ:
          texts_size_ = value;
          break;
        case DT_SYMTAB:
          symbols_ = value;
          break;
        case DT_HASH:
          hash_ = value;
          break;
        case DT_GNU_HASH:
          gnu_hash_ = value;
          break;
        case DT_VERSYM:
          version_numbers_ = value;
          break;
        case DT_VERDEF:
          version_definitions_ = value;
          break;
        case DT_VERDEFNUM:
          version_definition_count_ = value;
          break;
        case DT_VERNEED:
          version_needs_ = value;
          break;
        case DT_VERNEEDNUM:
          version_need_count_ = value;
          break;
        default:
          break;
      }
    }
  }

  /// Reads (version, file) by version number (vna_other).
  void read_versions() {
    if (version_needs_ == 0) return;
    std::uint64_t need_at = version_needs_;
    std::uint64_t left = segment_bytes(need_at).size() / sizeof(Elf64_Vernaux);
    for (std::uint64_t i = 0; i < version_need_count_ && left > 0; ++i, --left) {
      const auto need = at<Elf64_Verneed>(need_at);
      if (!need) fail("its version needs lie outside the file");
      const std::string library(text(need->vn_file));
      std::uint64_t version_at = need_at + need->vn_aux;
      for (unsigned j = 0; j < need->vn_cnt && left > 0; ++j, --left) {
        const auto version = at<Elf64_Vernaux>(version_at);
        if (!version) fail("its version needs lie outside the file");
        versions_[version->vna_other & kVersionMask] = {std::string(text(version->vna_name)),
                                                        library};
        if (version->vna_next == 0) break;
        version_at += version->vna_next;
      }
      if (need->vn_next == 0) break;
      need_at += need->vn_next;
    }
  }

  /// Reads the versions that the file defines by their number, as belonging to no other file. The
  /// first one is the file's own name.
  void read_defined_versions() {
    if (version_definitions_ == 0) return;
    std::uint64_t at_definition = version_definitions_;
    const std::uint64_t most = segment_bytes(at_definition).size() / sizeof(Elf64_Verdef);
    for (std::uint64_t i = 0; i < std::min(version_definition_count_, most); ++i) {
      const auto definition = at<Elf64_Verdef>(at_definition);
      if (!definition) fail("its version definitions lie outside the file");
      const auto name = at<Elf64_Verdaux>(at_definition + definition->vd_aux);
      if (!name) fail("its version definitions lie outside the file");
      if ((definition->vd_flags & VER_FLG_BASE) == 0)
        versions_[definition->vd_ndx & kVersionMask] = {std::string(text(name->vda_name)), {}};
      if (definition->vd_next == 0) break;
      at_definition += definition->vd_next;
    }
  }

  /// Returns the number after that of the last symbol in the table: the end of its last chain.
  std::uint64_t end_of_exports(const HashTable& table) const {
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < table.count; ++i) {
      const auto bucket = at<Elf64_Word>(table.buckets + i * sizeof(Elf64_Word));
      if (!bucket) fail("its hash table lies outside the file");
      last = std::max<std::uint64_t>(last, *bucket);
    }
    if (last < table.first) return 0;
    for (;; ++last) {
      const auto hash = at<Elf64_Word>(table.chains + (last - table.first) * sizeof(Elf64_Word));
      if (!hash) fail("its hash table lies outside the file");
      if ((*hash & 1U) != 0) return last + 1;
    }
  }

  /// Returns the number of entries to read from the symbol table. DT_HASH contains the total.
  /// DT_GNU_HASH contains the index of the first hashed symbol; undefined symbols are not hashed
  /// and precede it.
  std::uint64_t symbol_count() const {
    const std::uint64_t most = segment_bytes(symbols_).size() / sizeof(Elf64_Sym);
    std::uint64_t count = 0;
    if (hash_ != 0)
      count = at<Elf64_Word>(hash_ + sizeof(Elf64_Word)).value_or(0);
    else if (gnu_hash_ != 0)
      count = at<Elf64_Word>(gnu_hash_ + sizeof(Elf64_Word)).value_or(0);
    if (count > most) fail("its symbol table lies outside the file");
    return count;
  }

  /// Returns the bytes of the file from `address` to the end of its segment.
  std::span<const std::byte> segment_bytes(std::uint64_t address) const {
    const auto bytes = file_.bytes();
    for (const Elf64_Phdr& segment : segments_) {
      if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz) continue;
      if (segment.p_offset > bytes.size() || bytes.size() - segment.p_offset < segment.p_filesz)
        fail("it is truncated: a segment lies outside the file");
      return bytes.subspan(segment.p_offset, segment.p_filesz).subspan(address - segment.p_vaddr);
    }
    return {};
  }

  template <typename T>
  std::optional<T> at(std::uint64_t address) const {
    return read_at<T>(segment_bytes(address), 0);
  }

  /// Returns the string at `offset` of the string table; empty if there is none.
  std::string_view text(std::uint64_t offset) const {
    const auto table = segment_bytes(texts_);
    const std::uint64_t size = std::min<std::uint64_t>(table.size(), texts_size_);
    return elf_text(table.first(size), offset, kMaxImportLength);
  }

  MappedFile file_;
  std::vector<Elf64_Phdr> segments_;
  std::optional<Elf64_Phdr> dynamic_;
  // Values of the dynamic section, mostly addresses; 0 where the file has no such entry.
  std::vector<std::uint64_t> needed_;
  std::uint64_t soname_ = 0;
  std::uint64_t texts_ = 0;
  std::uint64_t texts_size_ = 0;
  std::uint64_t symbols_ = 0;
  std::uint64_t hash_ = 0;
  std::uint64_t gnu_hash_ = 0;
  std::uint64_t version_numbers_ = 0;
  std::uint64_t version_definitions_ = 0;
  std::uint64_t version_definition_count_ = 0;
  std::uint64_t version_needs_ = 0;
  std::uint64_t version_need_count_ = 0;
  std::map<unsigned, std::pair<std::string, std::string>> versions_;
};

}  // namespace

DynamicImports read_dynamic_imports(const std::filesystem::path& path) {
  return DynamicSymbols(path).imports();
}

std::vector<DynamicExport> read_dynamic_exports(const std::filesystem::path& path) {
  return DynamicSymbols(path).exports();
}

DynamicExports find_exports(const std::filesystem::path& path, const std::set<std::string>& names) {
  const DynamicSymbols symbols(path);
  DynamicExports exports{.soname = std::string(symbols.soname()), .found = {}};
  for (const std::string& name : names)
    if (symbols.exports(name)) exports.found.insert(name);
  return exports;
}

}  // namespace optrace
