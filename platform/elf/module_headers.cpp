// The part of ModuleSymbols that reads the headers of an ELF file.

#include <algorithm>
#include <cstring>
#include <limits>

#include <elf.h>
#include <fmt/core.h>

#include "platform/elf/elf_text.h"
#include "platform/elf/module_symbols.h"
#include "platform/elf/processor.h"
#include "platform/elf/read_at.h"
#include "platform/error.h"

namespace optrace {
namespace {

// Linkers write about ten segments. Every symbol is looked up in all of them.
constexpr std::size_t kMaxSegments = 256;

constexpr std::size_t kMaxLinkLength = 4096;  // Of the name of a file with debug info.
constexpr std::size_t kMaxSectionName = 32;

}  // namespace

class ModuleSymbols::HeaderReader {
 public:
  explicit HeaderReader(ModuleSymbols& module) : module_(module) {}

  void read_program_headers();
  void read_sections();

 private:
  void add_segment(const Elf64_Phdr& entry);
  void set_base();
  // Returns true if a table of this size may be read too. The tables of a valid file take together
  // at most the file's size, but a header can refer to one table many times.
  bool tables_fit(std::uint64_t size);
  void read_notes(std::span<const std::byte> notes);
  // Returns a section's header; nothing if it lies outside the file.
  std::optional<Elf64_Shdr> section_at(std::uint64_t index) const;
  std::span<const std::byte> part_of_section(const Elf64_Shdr& section) const;
  void read_named_section(const Elf64_Shdr& section, std::string_view name);
  void add_relocations(const Elf64_Shdr& section);
  void read_symbol_table(const Elf64_Shdr& section);

  ModuleSymbols& module_;
  Elf64_Ehdr header_{};
  std::uint64_t segment_bytes_ = 0;  // Total size of the segments so far.
  std::uint64_t table_bytes_ = 0;    // Total size of the tables read so far.
};

ModuleSymbols::ModuleSymbols(const std::filesystem::path& path) : ModuleSymbols(MappedFile(path)) {}

ModuleSymbols::ModuleSymbols(MappedFile file) : file_(std::move(file)) {
  HeaderReader reader(*this);
  reader.read_program_headers();
  reader.read_sections();
}

void ModuleSymbols::fail(const char* reason) const {
  throw Error(ExitStatus::usage,
              fmt::format("cannot read the library {}: {}", path().string(), reason),
              "Reinstall the package that it belongs to.");
}

void ModuleSymbols::HeaderReader::read_program_headers() {
  const auto header = read_at<Elf64_Ehdr>(module_.file_.part(0, sizeof(Elf64_Ehdr)), 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
    module_.fail("it is not an ELF file");
  header_ = *header;
  const bool wide_little =
      header_.e_ident[EI_CLASS] == ELFCLASS64 && header_.e_ident[EI_DATA] == ELFDATA2LSB;
  if (header_.e_machine != EM_X86_64 || !wide_little) {
    throw Error(
        ExitStatus::usage,
        fmt::format("{} is for another processor: {}", module_.path().string(),
                    processor_name(header_.e_machine)),
        "optrace traces x86-64 processes; choose a Python whose torch is built for x86-64.");
  }
  if (header_.e_phnum == 0 || header_.e_phentsize != sizeof(Elf64_Phdr))
    module_.fail("it has no program headers");
  std::vector<Elf64_Phdr> others;
  for (std::uint64_t i = 0; i < header_.e_phnum; ++i) {
    const auto entry = read_at<Elf64_Phdr>(
        module_.file_.part(header_.e_phoff + i * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr)), 0);
    if (!entry) module_.fail("its program headers lie outside the file");
    if (entry->p_type != PT_LOAD) {
      others.push_back(*entry);
      continue;
    }
    add_segment(*entry);
  }
  set_base();
  for (const Elf64_Phdr& entry : others) {
    if (entry.p_type == PT_NOTE && tables_fit(entry.p_filesz))
      read_notes(module_.file_.part(entry.p_offset, entry.p_filesz));
    if (entry.p_type == PT_DYNAMIC)
      module_.dynamic_ = module_.file_.part(entry.p_offset, entry.p_filesz);
    if (entry.p_type == PT_GNU_EH_FRAME) module_.read_frame_header(entry.p_vaddr, entry.p_filesz);
  }
}

void ModuleSymbols::HeaderReader::add_segment(const Elf64_Phdr& entry) {
  const auto content = module_.file_.reserve(entry.p_offset, entry.p_filesz);
  if (content.size() != entry.p_filesz || entry.p_vaddr + entry.p_filesz < entry.p_vaddr)
    module_.fail("it is truncated: a segment lies outside the file");
  // The time to search the code must be linear in the file's size.
  segment_bytes_ += entry.p_filesz;
  if (segment_bytes_ > 2 * module_.file_.size()) module_.fail("its segments overlap");
  if (module_.segments_.size() == kMaxSegments) module_.fail("it has too many segments");
  module_.segments_.push_back({entry.p_vaddr, content});
  if ((entry.p_flags & PF_X) != 0) module_.executable_.emplace_back(entry.p_vaddr, content);
}

void ModuleSymbols::HeaderReader::set_base() {
  std::ranges::sort(module_.executable_, {},
                    &std::pair<std::uint64_t, std::span<const std::byte>>::first);
  if (module_.executable_.empty()) return;
  module_.base_ = module_.executable_.front().first;
  const auto& last = module_.executable_.back();
  if (last.first + last.second.size() - module_.base_ > std::numeric_limits<std::uint32_t>::max())
    module_.fail("its code spans more than 4 GiB");
}

bool ModuleSymbols::HeaderReader::tables_fit(std::uint64_t size) {
  if (size > 2 * module_.file_.size() - table_bytes_) return false;
  table_bytes_ += size;
  return true;
}

void ModuleSymbols::HeaderReader::read_notes(std::span<const std::byte> notes) {
  constexpr std::uint64_t kMaxBuildIdLength = 32;
  while (module_.build_id_.empty()) {
    const auto note = read_at<Elf64_Nhdr>(notes, 0);
    if (!note) return;
    const std::uint64_t name_at = sizeof(Elf64_Nhdr);
    const std::uint64_t content_at = name_at + ((std::uint64_t{note->n_namesz} + 3) & ~3ULL);
    const std::uint64_t end = content_at + ((std::uint64_t{note->n_descsz} + 3) & ~3ULL);
    const auto owner = part_of(notes, name_at, note->n_namesz);
    const auto content = part_of(notes, content_at, note->n_descsz);
    if (note->n_type == NT_GNU_BUILD_ID && owner.size() == 4 &&
        std::memcmp(owner.data(), "GNU", 4) == 0 && content.size() <= kMaxBuildIdLength) {
      for (const std::byte byte : content)
        module_.build_id_ += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    }
    if (end > notes.size()) return;
    notes = notes.subspan(end);
  }
}

std::optional<Elf64_Shdr> ModuleSymbols::HeaderReader::section_at(std::uint64_t index) const {
  // The product can't overflow: both factors are below 2^32.
  const std::uint64_t offset = index * sizeof(Elf64_Shdr);
  if (offset > module_.file_.size() || header_.e_shoff > module_.file_.size()) return std::nullopt;
  return read_at<Elf64_Shdr>(module_.file_.part(header_.e_shoff + offset, sizeof(Elf64_Shdr)), 0);
}

std::span<const std::byte> ModuleSymbols::HeaderReader::part_of_section(
    const Elf64_Shdr& section) const {
  return module_.file_.part(section.sh_offset, section.sh_size);
}

void ModuleSymbols::HeaderReader::read_sections() {
  if (header_.e_shoff == 0 || header_.e_shentsize != sizeof(Elf64_Shdr)) return;
  std::optional<Elf64_Shdr> chosen;
  const auto named = section_at(header_.e_shstrndx);
  const auto section_names = named && named->sh_type == SHT_STRTAB && tables_fit(named->sh_size)
                                 ? part_of_section(*named)
                                 : std::span<const std::byte>();
  for (std::uint64_t i = 0; i < header_.e_shnum; ++i) {
    const auto section = section_at(i);
    if (!section) module_.fail("it is truncated: its section headers lie outside the file");
    if (section->sh_type == SHT_PROGBITS)
      read_named_section(*section, elf_text(section_names, section->sh_name, kMaxSectionName));
    if (section->sh_type == SHT_SYMTAB) module_.stripped_ = false;
    if (section->sh_type == SHT_SYMTAB ||
        (section->sh_type == SHT_DYNSYM && (!chosen || chosen->sh_type != SHT_SYMTAB))) {
      chosen = section;
    }
    if (section->sh_type == SHT_NOTE && tables_fit(section->sh_size))
      read_notes(part_of_section(*section));
    if (section->sh_type == SHT_RELA) add_relocations(*section);
  }
  if (chosen) read_symbol_table(*chosen);
}

void ModuleSymbols::HeaderReader::read_named_section(const Elf64_Shdr& section,
                                                     std::string_view name) {
  if (name == ".debug_info") module_.has_debug_info_ = true;
  if (name == ".nv_fatbin" && !module_.file_.reserve(section.sh_offset, section.sh_size).empty())
    module_.gpu_code_ = {section.sh_offset, section.sh_size};
  if (name == ".gnu_debuglink" && tables_fit(section.sh_size))
    module_.debug_link_ = elf_text(part_of_section(section), 0, kMaxLinkLength);
}

void ModuleSymbols::HeaderReader::add_relocations(const Elf64_Shdr& section) {
  const auto symbols = section_at(section.sh_link);
  const auto names = symbols ? section_at(symbols->sh_link) : std::nullopt;
  if (!names || symbols->sh_type != SHT_DYNSYM || names->sh_type != SHT_STRTAB ||
      !tables_fit(section.sh_size))
    return;
  module_.relocations_.push_back(
      {part_of_section(section), part_of_section(*symbols), part_of_section(*names)});
}

void ModuleSymbols::HeaderReader::read_symbol_table(const Elf64_Shdr& section) {
  const auto strings = section_at(section.sh_link);
  if (section.sh_entsize != sizeof(Elf64_Sym) || !strings || strings->sh_type != SHT_STRTAB)
    module_.fail("its symbol table is malformed");
  module_.symbols_ = part_of_section(section);
  module_.names_ = part_of_section(*strings);
  if (module_.symbols_.size() != section.sh_size || module_.names_.size() != strings->sh_size)
    module_.fail("it is truncated: its symbol table lies outside the file");
  module_.symbol_count_ = module_.symbols_.size() / sizeof(Elf64_Sym);
  if (module_.symbol_count_ >= std::numeric_limits<std::uint32_t>::max())
    module_.fail("it has too many symbols");
}

}  // namespace optrace
