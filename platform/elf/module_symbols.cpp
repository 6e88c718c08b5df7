#include "platform/elf/module_symbols.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <elf.h>
#include <fmt/format.h>
#include <xxhash.h>

#include "platform/elf/elf_text.h"
#include "platform/elf/processor.h"
#include "platform/elf/read_at.h"
#include "platform/error.h"

namespace optrace {
namespace {

/// Returns `size` bytes at `offset`, or an empty span if they don't lie inside.
std::span<const std::byte> part_of(std::span<const std::byte> bytes, std::uint64_t offset,
                                   std::uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return {};
  return bytes.subspan(offset, size);
}

// Linkers write about ten segments. Every symbol is looked up in all of them.
constexpr std::size_t kMaxSegments = 256;

constexpr std::size_t kMaxPathLength = 4096;  // For needed libraries.
constexpr std::size_t kMaxSectionName = 32;

constexpr std::string_view kColdMark = ".cold";
constexpr unsigned kNamesBetweenReleases = 1U << 12;

/// Returns `foo` for `foo.cold` and `foo.cold.7` (GCC before 9), else nullopt.
std::optional<std::string_view> cold_parent_name(std::string_view symbol) {
  if (symbol.find(kColdMark.front()) == symbol.npos) return std::nullopt;  // Nearly always.
  const std::size_t mark = symbol.rfind(kColdMark);
  if (mark == std::string_view::npos || mark == 0) return std::nullopt;
  const std::string_view rest = symbol.substr(mark + kColdMark.size());
  if (!rest.empty() &&
      (rest.size() < 2 || rest[0] != '.' ||
       !std::ranges::all_of(rest.substr(1), [](char c) { return c >= '0' && c <= '9'; }))) {
    return std::nullopt;
  }
  return symbol.substr(0, mark);
}

std::uint64_t name_hash(std::string_view name) {
  return XXH3_64bits(name.data(), name.size()) & 0xFFFFFFFF;
}

/// Reads the numbers of call frame information. Past the end, it returns zeros and ok() is false.
class FrameReader {
 public:
  explicit FrameReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }
  std::span<const std::byte> rest() const { return bytes_; }

  template <typename T>
  T fixed() {
    const auto value = read_at<T>(bytes_, 0);
    skip(sizeof(T));
    return value.value_or(T{});
  }

  std::uint64_t uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; ok_; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

  void skip(std::uint64_t size) {
    if (size > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
    } else {
      bytes_ = bytes_.subspan(size);
    }
  }

  std::span<const std::byte> take(std::uint64_t size) {
    const auto part = part_of(bytes_, 0, size);
    skip(size);
    return part;
  }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

// DWARF 5, section 7.24, and the pointer encodings of the LSB's .eh_frame chapter.
constexpr std::uint8_t kPointerAbsolute = 0x00;
constexpr std::uint8_t kPointerRelative4 = 0x1B;      // pcrel, sdata4
constexpr std::uint8_t kPointerDataRelative4 = 0x3B;  // datarel, sdata4
constexpr std::uint8_t kCountUnsigned4 = 0x03;        // udata4

constexpr std::uint64_t kStackPointerRegister = 7;  // rsp in the System V ABI's DWARF numbers

/// The rule for the canonical frame address: a register plus an offset.
struct CfaRule {
  std::uint64_t base = 0;
  std::uint64_t offset = 0;
  bool known = true;  ///< False while an expression defines the address.
};

/// Runs call frame instructions until their location is more than `distance` bytes after the start.
/// Returns false if an instruction is not supported.
bool run_frame_instructions(std::span<const std::byte> instructions, std::uint64_t code_alignment,
                            std::uint64_t distance, CfaRule& rule) {
  constexpr std::size_t kMaxStatesDepth = 64;
  std::vector<CfaRule> states;
  FrameReader reader(instructions);
  std::uint64_t location = 0;
  const auto advance = [&](std::uint64_t delta) {
    location += delta * code_alignment;
    return location > distance;
  };
  while (reader.ok() && !reader.at_end()) {
    const auto opcode = reader.fixed<std::uint8_t>();
    const std::uint8_t operand = opcode & 0x3F;
    switch (opcode >> 6) {
      case 1:  // DW_CFA_advance_loc
        if (advance(operand)) return true;
        continue;
      case 2:  // DW_CFA_offset
        reader.uleb();
        continue;
      case 3:  // DW_CFA_restore
        continue;
      default:
        break;
    }
    switch (opcode) {
      case 0x00:  // DW_CFA_nop
        break;
      case 0x02:  // DW_CFA_advance_loc1
        if (advance(reader.fixed<std::uint8_t>())) return true;
        break;
      case 0x03:  // DW_CFA_advance_loc2
        if (advance(reader.fixed<std::uint16_t>())) return true;
        break;
      case 0x04:  // DW_CFA_advance_loc4
        if (advance(reader.fixed<std::uint32_t>())) return true;
        break;
      case 0x06:  // DW_CFA_restore_extended
      case 0x07:  // DW_CFA_undefined
      case 0x08:  // DW_CFA_same_value
      case 0x2E:  // DW_CFA_GNU_args_size
        reader.uleb();
        break;
      case 0x05:  // DW_CFA_offset_extended
      case 0x09:  // DW_CFA_register
      case 0x11:  // DW_CFA_offset_extended_sf
      case 0x14:  // DW_CFA_val_offset
      case 0x15:  // DW_CFA_val_offset_sf
        reader.uleb();
        reader.uleb();
        break;
      case 0x0A:  // DW_CFA_remember_state
        if (states.size() == kMaxStatesDepth) return false;
        states.push_back(rule);
        break;
      case 0x0B:  // DW_CFA_restore_state
        if (states.empty()) return false;
        rule = states.back();
        states.pop_back();
        break;
      case 0x0C: {  // DW_CFA_def_cfa
        const std::uint64_t base = reader.uleb();
        rule = {base, reader.uleb(), true};
        break;
      }
      case 0x0D:  // DW_CFA_def_cfa_register
        rule.base = reader.uleb();
        break;
      case 0x0E:  // DW_CFA_def_cfa_offset
        rule.offset = reader.uleb();
        break;
      case 0x0F:  // DW_CFA_def_cfa_expression
        rule.known = false;
        reader.skip(reader.uleb());
        break;
      case 0x10:  // DW_CFA_expression
      case 0x16:  // DW_CFA_val_expression
        reader.uleb();
        reader.skip(reader.uleb());
        break;
      default:
        return false;
    }
  }
  return reader.ok();
}

}  // namespace

ModuleSymbols::ModuleSymbols(const std::filesystem::path& path) : ModuleSymbols(MappedFile(path)) {}

ModuleSymbols::ModuleSymbols(MappedFile file) : file_(std::move(file)) {
  read_headers();
  read_sections();
}

void ModuleSymbols::fail(const char* reason) const {
  throw Error(ExitStatus::usage,
              fmt::format("cannot read the library {}: {}", path().string(), reason),
              "Reinstall the package that it belongs to.");
}

void ModuleSymbols::read_headers() {
  const auto header = read_at<Elf64_Ehdr>(file_.part(0, sizeof(Elf64_Ehdr)), 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) fail("it is not an ELF file");
  const bool wide_little =
      header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB;
  if (header->e_machine != EM_X86_64 || !wide_little) {
    throw Error(
        ExitStatus::usage,
        fmt::format("{} is for another processor: {}", path().string(),
                    processor_name(header->e_machine)),
        "optrace traces x86-64 processes; choose a Python whose torch is built for x86-64.");
  }
  if (header->e_phnum == 0 || header->e_phentsize != sizeof(Elf64_Phdr)) {
    fail("it has no program headers");
  }
  std::vector<Elf64_Phdr> others;
  std::uint64_t segment_bytes = 0;
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto entry = read_at<Elf64_Phdr>(
        file_.part(header->e_phoff + i * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr)), 0);
    if (!entry) fail("its program headers lie outside the file");
    if (entry->p_type != PT_LOAD) {
      others.push_back(*entry);
      continue;
    }
    const auto content = file_.reserve(entry->p_offset, entry->p_filesz);
    if (content.size() != entry->p_filesz || entry->p_vaddr + entry->p_filesz < entry->p_vaddr) {
      fail("it is truncated: a segment lies outside the file");
    }
    // The time to search the code must be linear in the file's size.
    segment_bytes += entry->p_filesz;
    if (segment_bytes > 2 * file_.size()) fail("its segments overlap");
    if (segments_.size() == kMaxSegments) fail("it has too many segments");
    segments_.push_back({entry->p_vaddr, content});
    if ((entry->p_flags & PF_X) != 0) executable_.emplace_back(entry->p_vaddr, content);
  }
  std::ranges::sort(executable_, {}, &std::pair<std::uint64_t, std::span<const std::byte>>::first);
  if (!executable_.empty()) {
    base_ = executable_.front().first;
    const auto& last = executable_.back();
    if (last.first + last.second.size() - base_ > std::numeric_limits<std::uint32_t>::max()) {
      fail("its code spans more than 4 GiB");
    }
  }
  for (const Elf64_Phdr& entry : others) {
    if (entry.p_type == PT_NOTE && tables_fit(entry.p_filesz))
      read_notes(file_.part(entry.p_offset, entry.p_filesz));
    if (entry.p_type == PT_DYNAMIC) dynamic_ = file_.part(entry.p_offset, entry.p_filesz);
    if (entry.p_type == PT_GNU_EH_FRAME) read_frame_header(entry.p_vaddr, entry.p_filesz);
  }
}

bool ModuleSymbols::tables_fit(std::uint64_t size) {
  if (size > 2 * file_.size() - table_bytes_) return false;
  table_bytes_ += size;
  return true;
}

void ModuleSymbols::read_notes(std::span<const std::byte> notes) {
  constexpr std::uint64_t kMaxBuildIdLength = 32;
  while (build_id_.empty()) {
    const auto note = read_at<Elf64_Nhdr>(notes, 0);
    if (!note) return;
    const std::uint64_t name_at = sizeof(Elf64_Nhdr);
    const std::uint64_t content_at = name_at + ((std::uint64_t{note->n_namesz} + 3) & ~3ULL);
    const std::uint64_t end = content_at + ((std::uint64_t{note->n_descsz} + 3) & ~3ULL);
    const auto owner = part_of(notes, name_at, note->n_namesz);
    const auto content = part_of(notes, content_at, note->n_descsz);
    if (note->n_type == NT_GNU_BUILD_ID && owner.size() == 4 &&
        std::memcmp(owner.data(), "GNU", 4) == 0 && content.size() <= kMaxBuildIdLength) {
      for (const std::byte byte : content) {
        build_id_ += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
      }
    }
    if (end > notes.size()) return;
    notes = notes.subspan(end);
  }
}

void ModuleSymbols::read_frame_header(std::uint64_t address, std::uint64_t size) {
  const auto header = bytes_at(address, size);
  FrameReader reader(header);
  const auto version = reader.fixed<std::uint8_t>();
  const auto frame_encoding = reader.fixed<std::uint8_t>();
  const auto count_encoding = reader.fixed<std::uint8_t>();
  const auto table_encoding = reader.fixed<std::uint8_t>();
  // GNU ld, gold and lld write these encodings. Without a searchable table, the bounds that
  // .eh_frame would give are unknown.
  if (version != 1 || frame_encoding != kPointerRelative4 || count_encoding != kCountUnsigned4 ||
      table_encoding != kPointerDataRelative4) {
    return;
  }
  reader.skip(sizeof(std::int32_t));
  const auto count = reader.fixed<std::uint32_t>();
  frame_header_address_ = address;
  frame_table_ = reader.take(std::uint64_t{count} * 2 * sizeof(std::int32_t));
}

void ModuleSymbols::read_sections() {
  const auto header = read_at<Elf64_Ehdr>(file_.part(0, sizeof(Elf64_Ehdr)), 0);
  if (!header || header->e_shoff == 0 || header->e_shentsize != sizeof(Elf64_Shdr)) return;
  const auto section_at = [&](std::uint64_t index) {
    // The product can't overflow: both factors are below 2^32.
    const std::uint64_t offset = index * sizeof(Elf64_Shdr);
    return offset > file_.size() || header->e_shoff > file_.size()
               ? std::nullopt
               : read_at<Elf64_Shdr>(file_.part(header->e_shoff + offset, sizeof(Elf64_Shdr)), 0);
  };
  std::optional<Elf64_Shdr> chosen;
  const auto named = section_at(header->e_shstrndx);
  const auto section_names = named && named->sh_type == SHT_STRTAB && tables_fit(named->sh_size)
                                 ? file_.part(named->sh_offset, named->sh_size)
                                 : std::span<const std::byte>();
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = section_at(i);
    if (!section) fail("it is truncated: its section headers lie outside the file");
    if (section->sh_type == SHT_PROGBITS) {
      const std::string_view name = elf_text(section_names, section->sh_name, kMaxSectionName);
      if (name == ".debug_info") has_debug_info_ = true;
      if (name == ".nv_fatbin" && !file_.reserve(section->sh_offset, section->sh_size).empty())
        gpu_code_ = {section->sh_offset, section->sh_size};
      if (name == ".gnu_debuglink" && tables_fit(section->sh_size))
        debug_link_ = elf_text(file_.part(section->sh_offset, section->sh_size), 0, kMaxPathLength);
    }
    if (section->sh_type == SHT_SYMTAB) stripped_ = false;
    if (section->sh_type == SHT_SYMTAB ||
        (section->sh_type == SHT_DYNSYM && (!chosen || chosen->sh_type != SHT_SYMTAB))) {
      chosen = section;
    }
    if (section->sh_type == SHT_NOTE && tables_fit(section->sh_size)) {
      read_notes(file_.part(section->sh_offset, section->sh_size));
    }
    if (section->sh_type == SHT_RELA) {
      const auto symbols = section_at(section->sh_link);
      const auto names = symbols ? section_at(symbols->sh_link) : std::nullopt;
      if (!names || symbols->sh_type != SHT_DYNSYM || names->sh_type != SHT_STRTAB ||
          !tables_fit(section->sh_size))
        continue;
      relocations_.push_back({file_.part(section->sh_offset, section->sh_size),
                              file_.part(symbols->sh_offset, symbols->sh_size),
                              file_.part(names->sh_offset, names->sh_size)});
    }
  }
  if (!chosen) return;
  const auto strings = section_at(chosen->sh_link);
  if (chosen->sh_entsize != sizeof(Elf64_Sym) || !strings || strings->sh_type != SHT_STRTAB) {
    fail("its symbol table is malformed");
  }
  symbols_ = file_.part(chosen->sh_offset, chosen->sh_size);
  names_ = file_.part(strings->sh_offset, strings->sh_size);
  if (symbols_.size() != chosen->sh_size || names_.size() != strings->sh_size) {
    fail("it is truncated: its symbol table lies outside the file");
  }
  symbol_count_ = symbols_.size() / sizeof(Elf64_Sym);
  if (symbol_count_ >= std::numeric_limits<std::uint32_t>::max()) fail("it has too many symbols");
}

ModuleSymbols::Symbol ModuleSymbols::symbol(std::size_t index) const {
  Elf64_Sym entry;
  std::memcpy(&entry, symbols_.data() + index * sizeof(Elf64_Sym), sizeof entry);
  return {entry.st_value,
          entry.st_size,
          entry.st_name,
          static_cast<std::uint8_t>(ELF64_ST_TYPE(entry.st_info)),
          static_cast<std::uint8_t>(ELF64_ST_BIND(entry.st_info)),
          entry.st_shndx != SHN_UNDEF};
}

std::string_view ModuleSymbols::name(const Symbol& symbol) const {
  return elf_text(names_, symbol.name, kMaxNameLength);
}

bool ModuleSymbols::is_function(const Symbol& symbol) const {
  if ((symbol.type != STT_FUNC && symbol.type != STT_GNU_IFUNC) || !symbol.defined) return false;
  return std::ranges::any_of(executable_, [&](const auto& segment) {
    return symbol.value >= segment.first && symbol.value - segment.first < segment.second.size();
  });
}

bool ModuleSymbols::is_object(const Symbol& symbol) {
  return symbol.type == STT_OBJECT && symbol.defined;
}

std::optional<NativeObject> ModuleSymbols::find_object(std::string_view symbol_name) const {
  for (std::size_t index = 0; index < symbol_count_; ++index) {
    const Symbol entry = symbol(index);
    if (is_object(entry) && name(entry) == symbol_name)
      return NativeObject{entry.value, entry.size};
  }
  return std::nullopt;
}

const ModuleSymbols::Table& ModuleSymbols::table() const {
  if (!table_) table_ = collect_functions();
  return *table_;
}

ModuleSymbols::Table ModuleSymbols::collect_functions() const {
  Table result;
  std::vector<std::uint64_t> keys;
  keys.reserve(symbol_count_ / 4 * 3);
  for (std::size_t index = 0; index < symbol_count_; ++index) {
    const Symbol entry = symbol(index);
    if (entry.type == STT_FILE) result.file_symbols.push_back(static_cast<std::uint32_t>(index));
    if (is_function(entry)) keys.push_back((entry.value - base_) << 32 | index);
  }
  std::ranges::sort(keys);

  unsigned names_read = 0;
  const auto rank = [&](std::uint64_t key) {
    if (++names_read % kNamesBetweenReleases == 0) file_.release_pages();
    const Symbol entry = symbol(key & 0xFFFFFFFF);
    const std::string_view text = name(entry);
    return std::tuple(text.empty(), entry.type == STT_GNU_IFUNC, cold_parent_name(text).has_value(),
                      entry.size == 0, entry.binding == STB_LOCAL, !text.ends_with('_'), text);
  };
  std::size_t distinct = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    distinct += i == 0 || keys[i] >> 32 != keys[i - 1] >> 32 ? 1U : 0U;
  }
  result.starts.reserve(distinct);
  result.sizes.reserve(distinct);
  result.symbols.reserve(distinct);
  for (std::size_t i = 0; i < keys.size();) {
    std::size_t end = i + 1;
    while (end < keys.size() && keys[end] >> 32 == keys[i] >> 32) ++end;
    std::uint64_t best = keys[i];
    if (end - i > 1) {
      auto best_rank = rank(best);
      for (std::size_t other = i + 1; other < end; ++other) {
        if (const auto other_rank = rank(keys[other]); other_rank < best_rank) {
          best_rank = other_rank;
          best = keys[other];
        }
      }
    }
    const Symbol entry = symbol(best & 0xFFFFFFFF);
    std::uint64_t size = code(entry.value, entry.size).size();
    if (size == 0) {
      const auto fde = fde_at(entry.value);
      if (fde && fde->address == entry.value) {
        size = code(entry.value, fde->size).size();
      } else if (end < keys.size()) {
        size = code(entry.value, (keys[end] >> 32) - (keys[i] >> 32)).size();
      }
    }
    result.starts.push_back(static_cast<std::uint32_t>(best >> 32));
    result.sizes.push_back(static_cast<std::uint32_t>(size));
    result.symbols.push_back(static_cast<std::uint32_t>(best & 0xFFFFFFFF));
    i = end;
  }
  file_.release_pages();
  return result;
}

NativeFunction ModuleSymbols::function(std::size_t position) const {
  const Symbol entry = symbol(table().symbols.at(position));
  return {entry.value, table().sizes[position], name(entry), entry.binding == STB_LOCAL,
          entry.type == STT_GNU_IFUNC};
}

std::optional<std::pair<std::uint64_t, std::string_view>> ModuleSymbols::callable(
    std::size_t index) const {
  const Symbol entry = symbol(index);
  if (entry.type != STT_FUNC || !is_function(entry)) return std::nullopt;
  const std::string_view text = name(entry);
  if (text.empty() || (entry.binding == STB_LOCAL && cold_parent_name(text))) return std::nullopt;
  return std::pair(entry.value, text);
}

std::optional<std::size_t> ModuleSymbols::position_of(std::uint64_t address) const {
  if (address < base_ || address - base_ > std::numeric_limits<std::uint32_t>::max()) {
    return std::nullopt;
  }
  const auto offset = static_cast<std::uint32_t>(address - base_);
  const auto after = std::ranges::upper_bound(table().starts, offset);
  // Assembly may define function symbols inside a larger function: look a few entries back for it.
  constexpr std::ptrdiff_t kMaxNestingDepth = 8;
  const std::ptrdiff_t last = after - table().starts.begin();
  for (std::ptrdiff_t at = last - 1; at >= 0 && at >= last - kMaxNestingDepth; --at) {
    const auto position = static_cast<std::size_t>(at);
    if (offset - table().starts[position] < table().sizes[position]) return position;
  }
  return std::nullopt;
}

std::optional<NativeFunction> ModuleSymbols::find_piece(std::uint64_t address) const {
  if (const auto position = position_of(address)) return function(*position);
  if (code(address, 1).empty()) return std::nullopt;
  if (const auto fde = fde_at(address)) {
    return NativeFunction{fde->address, fde->size, {}, true, false};
  }
  return std::nullopt;
}

std::optional<NativeFunction> ModuleSymbols::find(std::uint64_t address) const {
  auto piece = find_piece(address);
  if (piece && piece->local) {
    if (auto parent = parent_of_cold(*piece)) return parent;
  }
  return piece;
}

std::optional<NativeFunction> ModuleSymbols::parent_of_cold(const NativeFunction& part) const {
  const auto parent_name = cold_parent_name(part.symbol);
  if (!parent_name) return std::nullopt;
  const auto known = cold_parents_.find(part.address);
  if (known != cold_parents_.end()) return find_piece(known->second);
  if (by_name_.empty()) {
    by_name_.reserve(function_count());
    for (std::size_t index = 0; index < symbol_count_; ++index) {
      const Symbol entry = symbol(index);
      if (!is_function(entry)) continue;
      by_name_.push_back(name_hash(name(entry)) << 32 | index);
      if (by_name_.size() % kNamesBetweenReleases == 0) file_.release_pages();
    }
    file_.release_pages();
    std::ranges::sort(by_name_);
  }
  // Several local functions may share a name; the part was split from the one in its own source
  // file.
  std::optional<NativeFunction> parent;
  const std::uint64_t hash = name_hash(*parent_name);
  for (auto entry = std::ranges::lower_bound(by_name_, hash << 32);
       entry != by_name_.end() && *entry >> 32 == hash; ++entry) {
    const Symbol named = symbol(*entry & 0xFFFFFFFF);
    const auto candidate = find_piece(named.value);
    if (name(named) != *parent_name || !candidate || candidate->address != named.value) continue;
    if (!parent || (candidate->local && source_file(*candidate) == source_file(part))) {
      parent = candidate;
    }
  }
  if (parent) cold_parents_[part.address] = parent->address;
  return parent;
}

bool ModuleSymbols::is_cold_part(const NativeFunction& part, const NativeFunction& function) const {
  const auto parent_name = part.local ? cold_parent_name(part.symbol) : std::nullopt;
  if (!parent_name || parent_name->size() != function.symbol.size()) return false;
  const auto differ = std::ranges::mismatch(*parent_name, function.symbol);
  if (differ.in1 == parent_name->end()) {
    return !function.local || source_file(part) == source_file(function);
  }
  // If one constructor implements both variants (C1, C2), the part may be named after either. The
  // same holds for destructors (D1, D2).
  const bool variant =
      differ.in1 != parent_name->begin() && (differ.in1[-1] == 'C' || differ.in1[-1] == 'D') &&
      (*differ.in1 == '1' || *differ.in1 == '2') && (*differ.in2 == '1' || *differ.in2 == '2');
  return variant && std::equal(differ.in1 + 1, parent_name->end(), differ.in2 + 1);
}

std::string_view ModuleSymbols::source_file(const NativeFunction& function) const {
  if (!function.local || function.symbol.empty()) return {};
  const auto position = position_of(function.address);
  if (!position) return {};
  const auto after = std::ranges::upper_bound(table().file_symbols, table().symbols[*position]);
  return after == table().file_symbols.begin() ? std::string_view()
                                               : name(symbol(*std::prev(after)));
}

std::vector<std::string_view> ModuleSymbols::needed() const {
  std::vector<std::uint64_t> offsets;
  std::span<const std::byte> texts;
  for (std::uint64_t at = 0;; at += sizeof(Elf64_Dyn)) {
    const auto entry = read_at<Elf64_Dyn>(dynamic_, at);
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_NEEDED) offsets.push_back(entry->d_un.d_val);
    if (entry->d_tag == DT_STRTAB) {
      for (const Segment& segment : segments_) {
        if (entry->d_un.d_ptr - segment.address < segment.bytes.size()) {
          texts = segment.bytes.subspan(entry->d_un.d_ptr - segment.address);
        }
      }
    }
  }
  std::vector<std::string_view> names;
  for (const std::uint64_t offset : offsets) {
    if (offset >= texts.size()) continue;
    const auto place = texts.subspan(offset);
    names.push_back(elf_text(file_.load(place.first(std::min(place.size(), kMaxPathLength))), 0,
                             kMaxPathLength));
  }
  return names;
}

const std::vector<std::pair<std::uint64_t, std::span<const std::byte>>>&
ModuleSymbols::executable_segments() const {
  for (const auto& [address, bytes] : executable_) file_.load(bytes);
  return executable_;
}

std::span<const std::byte> ModuleSymbols::code(std::uint64_t address, std::uint64_t size) const {
  for (const auto& [start, bytes] : executable_) {
    if (address < start || address - start >= bytes.size()) continue;
    const std::uint64_t offset = address - start;
    return file_.load(bytes.subspan(offset, std::min<std::uint64_t>(size, bytes.size() - offset)));
  }
  return {};
}

std::span<const std::byte> ModuleSymbols::bytes_at(std::uint64_t address,
                                                   std::uint64_t size) const {
  for (const Segment& segment : segments_) {
    if (address < segment.address || address - segment.address >= segment.bytes.size()) continue;
    return file_.load(part_of(segment.bytes, address - segment.address, size));
  }
  return {};
}

std::vector<std::uint64_t> ModuleSymbols::starts() const {
  std::vector<std::uint64_t> described;
  described.reserve(fde_count());
  for (std::size_t entry = 0; entry < fde_count(); ++entry) {
    const std::uint64_t start = fde_start(entry);
    if (!code(start, 1).empty()) described.push_back(start);
  }
  // Linkers sort the table. So a merge is enough, where sorting would take most of the time.
  if (!std::ranges::is_sorted(described)) std::ranges::sort(described);
  std::vector<std::uint64_t> result;
  result.reserve(table().starts.size() + described.size());
  for (const std::uint32_t offset : table().starts) result.push_back(base_ + offset);
  const auto named = static_cast<std::ptrdiff_t>(result.size());
  result.insert(result.end(), described.begin(), described.end());
  std::ranges::inplace_merge(result, result.begin() + named);
  const auto repeated = std::ranges::unique(result);
  result.erase(repeated.begin(), repeated.end());
  return result;
}

std::optional<std::uint64_t> ModuleSymbols::next_start(std::uint64_t address) const {
  std::optional<std::uint64_t> next;
  if (address >= base_ && address - base_ < std::numeric_limits<std::uint32_t>::max()) {
    const auto after =
        std::ranges::upper_bound(table().starts, static_cast<std::uint32_t>(address - base_));
    if (after != table().starts.end()) next = base_ + *after;
  }
  const std::size_t entry = fdes_up_to(address);
  if (entry < fde_count()) {
    const std::uint64_t start = fde_start(entry);
    if (start > address && (!next || start < *next)) next = start;
  }
  return next;
}

std::optional<std::uint64_t> ModuleSymbols::last_start(std::uint64_t address) const {
  std::optional<std::uint64_t> last;
  if (address >= base_ && address - base_ <= std::numeric_limits<std::uint32_t>::max()) {
    const auto& starts = table().starts;
    const auto after =
        std::ranges::upper_bound(starts, static_cast<std::uint32_t>(address - base_));
    if (after != starts.begin()) last = base_ + *std::prev(after);
  }
  if (const std::size_t behind = fdes_up_to(address); behind > 0) {
    last = std::max(last.value_or(0), fde_start(behind - 1));
  }
  return last;
}

std::uint64_t ModuleSymbols::from_frame_table(std::size_t offset) const {
  const auto relative = read_at<std::int32_t>(frame_table_, offset).value_or(0);
  return frame_header_address_ + static_cast<std::uint64_t>(std::int64_t{relative});
}

std::uint64_t ModuleSymbols::fde_start(std::size_t entry) const {
  return from_frame_table(entry * 2 * sizeof(std::int32_t));
}

std::size_t ModuleSymbols::fdes_up_to(std::uint64_t address) const {
  std::size_t low = 0;
  std::size_t high = fde_count();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (fde_start(middle) <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::optional<ModuleSymbols::Fde> ModuleSymbols::fde_at(std::uint64_t address) const {
  const std::size_t behind = fdes_up_to(address);
  if (behind == 0) return std::nullopt;
  auto fde =
      parse_fde(from_frame_table((behind - 1) * 2 * sizeof(std::int32_t) + sizeof(std::int32_t)));
  if (!fde || address < fde->address || address - fde->address >= fde->size) return std::nullopt;
  return fde;
}

std::optional<ModuleSymbols::Fde> ModuleSymbols::parse_fde(std::uint64_t address) const {
  const auto length = read_at<std::uint32_t>(bytes_at(address, 4), 0);
  if (!length || *length < 8 || *length == 0xFFFFFFFF) return std::nullopt;
  const auto body = bytes_at(address + 4, *length);
  FrameReader fde(body);
  const auto cie_distance = fde.fixed<std::uint32_t>();
  if (body.empty() || cie_distance == 0) return std::nullopt;

  const std::uint64_t cie_address = address + 4 - cie_distance;
  const auto cie_length = read_at<std::uint32_t>(bytes_at(cie_address, 4), 0);
  if (!cie_length || *cie_length == 0xFFFFFFFF) return std::nullopt;
  FrameReader cie(bytes_at(cie_address + 4, *cie_length));
  if (cie.fixed<std::uint32_t>() != 0) return std::nullopt;
  const auto version = cie.fixed<std::uint8_t>();
  std::string augmentation;
  for (char c = 0; cie.ok() && (c = cie.fixed<char>()) != 0;) augmentation += c;
  const std::uint64_t code_alignment = cie.uleb();
  cie.uleb();  // data alignment: signed, but of the same length as an unsigned one
  if (version == 1) {
    cie.fixed<std::uint8_t>();  // return address register
  } else {
    cie.uleb();
  }
  std::uint8_t encoding = kPointerAbsolute;
  if (!augmentation.empty() && augmentation[0] == 'z') {
    FrameReader data(cie.take(cie.uleb()));
    for (const char letter : augmentation.substr(1)) {
      if (letter == 'R') {
        encoding = data.fixed<std::uint8_t>();
      } else if (letter == 'L') {
        data.fixed<std::uint8_t>();
      } else if (letter == 'P') {
        const auto personality = data.fixed<std::uint8_t>();
        data.skip((personality & 0x0F) == 0x0B || (personality & 0x0F) == 0x03 ? 4 : 8);
      } else if (letter != 'S' && letter != 'B') {
        return std::nullopt;
      }
    }
    if (!data.ok()) return std::nullopt;
  } else if (!augmentation.empty()) {
    return std::nullopt;
  }
  if (!cie.ok()) return std::nullopt;

  Fde result;
  if (encoding == kPointerRelative4) {
    const std::uint64_t at = address + 8;
    result.address = at + static_cast<std::uint64_t>(std::int64_t{fde.fixed<std::int32_t>()});
    result.size = fde.fixed<std::uint32_t>();
  } else if (encoding == kPointerAbsolute) {
    result.address = fde.fixed<std::uint64_t>();
    result.size = fde.fixed<std::uint64_t>();
  } else {
    return std::nullopt;
  }
  if (!augmentation.empty()) fde.skip(fde.uleb());
  if (!fde.ok() || result.address + result.size < result.address) return std::nullopt;
  result.code_alignment = code_alignment;
  result.cie_instructions = cie.rest();
  result.instructions = fde.rest();
  return result;
}

std::optional<bool> ModuleSymbols::return_address_on_top(std::uint64_t address) const {
  const auto fde = fde_at(address);
  CfaRule rule;
  if (!fde || !run_frame_instructions(fde->cie_instructions, 1, 0, rule) ||
      !run_frame_instructions(fde->instructions, fde->code_alignment, address - fde->address,
                              rule)) {
    return std::nullopt;
  }
  return rule.known && rule.base == kStackPointerRegister && rule.offset == 8;
}

template <typename Visit>
void ModuleSymbols::for_each_slot_relocation(Visit visit) const {
  for (const Relocations& table : relocations_) {
    for (std::uint64_t at = 0;; at += sizeof(Elf64_Rela)) {
      const auto entry = read_at<Elf64_Rela>(table.entries, at);
      if (!entry) break;
      const auto type = ELF64_R_TYPE(entry->r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      const auto named =
          read_at<Elf64_Sym>(table.symbols, ELF64_R_SYM(entry->r_info) * sizeof(Elf64_Sym));
      if (!named || named->st_name >= table.names.size()) continue;
      visit(*entry, *named, elf_text(table.names, named->st_name, kMaxNameLength));
    }
  }
}

const std::vector<NamedAddress>& ModuleSymbols::slots() const {
  if (!slots_) {
    slots_.emplace();
    for_each_slot_relocation([&](const Elf64_Rela& entry, const Elf64_Sym&, std::string_view name) {
      slots_->push_back({entry.r_offset, name});
    });
    std::ranges::stable_sort(*slots_, {}, &NamedAddress::address);
    const auto repeated = std::ranges::unique(*slots_, {}, &NamedAddress::address);
    slots_->erase(repeated.begin(), repeated.end());
  }
  return *slots_;
}

std::string_view ModuleSymbols::dynamic_symbol_of_slot(std::uint64_t address) const {
  const auto slot = std::ranges::lower_bound(slots(), address, {}, &NamedAddress::address);
  return slot == slots().end() || slot->address != address ? std::string_view() : slot->symbol;
}

void ModuleSymbols::for_each_data_pointer(
    const std::function<void(const DataPointer&)>& visit) const {
  for (const Relocations& table : relocations_) {
    for (std::uint64_t at = 0;; at += sizeof(Elf64_Rela)) {
      const auto entry = read_at<Elf64_Rela>(table.entries, at);
      if (!entry) break;
      DataPointer pointer{.place = entry->r_offset,
                          .target = static_cast<std::uint64_t>(entry->r_addend),
                          .symbol = {}};
      if (ELF64_R_TYPE(entry->r_info) == R_X86_64_64) {
        const auto named =
            read_at<Elf64_Sym>(table.symbols, ELF64_R_SYM(entry->r_info) * sizeof(Elf64_Sym));
        if (!named) continue;
        pointer.symbol = elf_text(table.names, named->st_name, kMaxNameLength);
        pointer.target = named->st_shndx == SHN_UNDEF ? 0 : named->st_value + pointer.target;
      } else if (ELF64_R_TYPE(entry->r_info) != R_X86_64_RELATIVE) {
        continue;
      }
      visit(pointer);
    }
  }
}

std::string_view ModuleSymbols::text_at(std::uint64_t address) const {
  for (const Segment& segment : segments_) {
    if (address < segment.address || address - segment.address >= segment.bytes.size()) continue;
    const auto rest = segment.bytes.subspan(address - segment.address);
    return elf_text(file_.load(rest.first(std::min<std::size_t>(rest.size(), kMaxNameLength))), 0,
                    kMaxNameLength);
  }
  return {};
}

std::optional<std::uint64_t> ModuleSymbols::definition(std::string_view name) const {
  if (!definitions_) {
    definitions_.emplace();
    for_each_slot_relocation([&](const Elf64_Rela&, const Elf64_Sym& named, std::string_view text) {
      if (named.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(named.st_info) == STT_FUNC)
        definitions_->emplace(text, named.st_value);
    });
  }
  const auto found = definitions_->find(name);
  return found == definitions_->end() ? std::nullopt : std::optional(found->second);
}

}  // namespace optrace
