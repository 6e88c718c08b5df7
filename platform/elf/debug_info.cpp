#include "platform/elf/debug_info.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <libelf.h>

#include "platform/elf/debug_file.h"
#include "platform/elf/elf_text.h"
#include "platform/elf/read_at.h"
#include "platform/error.h"

namespace optrace {
namespace {

// Limits for crafted files. Real files stay far below.
constexpr std::size_t kMaxVisitedDies = std::size_t{1} << 28;
constexpr std::size_t kMaxRanges = std::size_t{1} << 24;
constexpr std::size_t kMaxInlined = 64;  // Functions inlined into each other.
constexpr int kMaxOrigins = 16;          // Successive references to a DIE's origin.
// libdw keeps some 80 bytes for each row of a line table, and a row may take one byte in the file.
constexpr std::uint32_t kMaxLineTableBytes = 8 << 20;
std::string_view name_of(Dwarf_Die& die) {
  Dwarf_Attribute attribute;
  const char* const name = dwarf_formstring(dwarf_attr_integrate(&die, DW_AT_name, &attribute));
  if (name == nullptr) return {};
  return {name, ::strnlen(name, kMaxNameLength)};
}

std::string linkage_name_of(Dwarf_Die& die) {
  Dwarf_Attribute attribute;
  for (const unsigned kind : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    const char* const name = dwarf_formstring(dwarf_attr_integrate(&die, kind, &attribute));
    if (name != nullptr) return {name, ::strnlen(name, kMaxNameLength)};
  }
  return {};
}

// Returns a DIE's part of a qualified name; empty for blocks.
std::string scope_name(Dwarf_Die& die) {
  const int tag = dwarf_tag(&die);
  if (tag == DW_TAG_lexical_block) return {};
  const std::string_view name = name_of(die);
  if (tag == DW_TAG_namespace && name.empty()) return "(anonymous namespace)";
  if (name.starts_with("<lambda")) return "{lambda}";
  return std::string(name);
}

// Returns the DIE that a DIE is an instance or the definition of, or the DIE itself.
Dwarf_Die origin_of(Dwarf_Die die) {
  for (int step = 0; step < kMaxOrigins; ++step) {
    Dwarf_Attribute attribute;
    Dwarf_Die next;
    Dwarf_Attribute* reference = dwarf_attr(&die, DW_AT_abstract_origin, &attribute);
    if (reference == nullptr) reference = dwarf_attr(&die, DW_AT_specification, &attribute);
    if (reference == nullptr || dwarf_formref_die(reference, &next) == nullptr) break;
    die = next;
  }
  return die;
}

std::optional<std::uint64_t> number_at(Dwarf_Die& die, unsigned kind) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_formudata(dwarf_attr(&die, kind, &attribute), &value) != 0) return std::nullopt;
  return value;
}

std::uint32_t line_number(std::optional<std::uint64_t> line) {
  constexpr std::uint64_t kMost = 0x7FFF'FFFF;
  return line && *line <= kMost ? static_cast<std::uint32_t>(*line) : 0;
}

std::string normal(const char* file) {
  return std::filesystem::path(std::string(file, ::strnlen(file, kMaxNameLength)))
      .lexically_normal()
      .string();
}

// A range of code, and the position of the unit or the offset of the DIE that it belongs to.
struct CodeRange {
  std::uint64_t low = 0;
  std::uint64_t high = 0;  // Exclusive.
  std::uint64_t of = 0;
};

// Returns the range that contains the address: of nested ones, the one that begins last.
const CodeRange* range_at(const std::vector<CodeRange>& sorted, std::uint64_t address) {
  constexpr int kMaxNested = 8;
  auto after = std::ranges::upper_bound(sorted, address, {}, &CodeRange::low);
  for (int i = 0; i < kMaxNested && after != sorted.begin(); ++i)
    if (address < (--after)->high) return &*after;
  return nullptr;
}

// Adds the code of a DIE. Functions that the linker removed lie at address 0.
void add_ranges(Dwarf_Die& die, std::uint64_t of, std::vector<CodeRange>& ranges) {
  Dwarf_Addr base = 0;
  Dwarf_Addr low = 0;
  Dwarf_Addr high = 0;
  for (ptrdiff_t at = 0; ranges.size() < kMaxRanges;) {
    at = dwarf_ranges(&die, at, &base, &low, &high);
    if (at <= 0) return;
    if (low != 0 && low < high) ranges.push_back({low, high, of});
  }
}

}  // namespace

bool InlinedFunction::operator==(const InlinedFunction& other) const {
  const auto line = [](const InlinedFunction& one) {
    return one.definition ? one.definition->line : 0;
  };
  return symbol == other.symbol && name == other.name && call_line == other.call_line &&
         line(*this) == line(other);
}

struct DebugInfo::State {
  struct Unit {
    Dwarf_Die die{};
    std::optional<std::vector<CodeRange>> functions;  // `of` is a DIE's offset.
    std::optional<bool> has_lines;
  };

  explicit State(std::unique_ptr<DebugFile> opened) : file(std::move(opened)) {}

  void find_units();
  Unit* unit_at(std::uint64_t address);
  std::optional<Dwarf_Die> function_at(Unit& unit, std::uint64_t address);
  bool may_read_lines(Unit& unit);
  bool has_small_line_table(Unit& unit);
  std::optional<DebugPlace> definition_of(Unit& unit, Dwarf_Die& die);
  bool inlined_child_at(Dwarf_Die& die, std::uint64_t address);
  std::uint32_t call_line_of(Unit& unit, Dwarf_Die& inlined, const std::optional<DebugPlace>& in);
  std::string scoped_name(Dwarf_Die die);
  bool visit() { return visited++ < kMaxVisitedDies; }

  const std::unique_ptr<DebugFile> file;
  std::vector<Unit> units;
  std::vector<CodeRange> ranges;  // `of` is a position in `units`.
  bool has_units = false;
  std::size_t visited = 0;
};

// Records the compilation units and their code.
void DebugInfo::State::find_units() {
  has_units = true;
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  std::uint8_t type = 0;
  // Without a place for the DIE of a split unit, libdw looks for no other file.
  while (dwarf_get_units(file->dwarf(), unit, &unit, nullptr, &type, &die, nullptr) == 0 &&
         visit()) {
    if (type != DW_UT_compile && type != DW_UT_skeleton) continue;
    add_ranges(die, units.size(), ranges);
    units.push_back({.die = die, .functions = std::nullopt, .has_lines = std::nullopt});
  }
  std::ranges::sort(ranges, {}, &CodeRange::low);
}

DebugInfo::State::Unit* DebugInfo::State::unit_at(std::uint64_t address) {
  if (!has_units) find_units();
  const CodeRange* const found = range_at(ranges, address);
  return found == nullptr ? nullptr : &units[found->of];
}

std::optional<Dwarf_Die> DebugInfo::State::function_at(Unit& unit, std::uint64_t address) {
  if (!unit.functions) {
    unit.functions.emplace();
    // GCC puts functions directly into the unit, and clang into their namespaces.
    std::vector<Dwarf_Die> scopes{unit.die};
    while (!scopes.empty()) {
      Dwarf_Die die = scopes.back();
      scopes.pop_back();
      if (dwarf_child(&die, &die) != 0) continue;
      do {
        if (!visit()) break;
        const int tag = dwarf_tag(&die);
        if (tag == DW_TAG_subprogram)
          add_ranges(die, dwarf_dieoffset(&die), *unit.functions);
        else if (tag == DW_TAG_namespace)
          scopes.push_back(die);
      } while (dwarf_siblingof(&die, &die) == 0);
    }
    std::ranges::sort(*unit.functions, {}, &CodeRange::low);
  }
  const CodeRange* const found = range_at(*unit.functions, address);
  Dwarf_Die die;
  if (found == nullptr || dwarf_offdie(file->dwarf(), found->of, &die) == nullptr)
    return std::nullopt;
  return die;
}

bool DebugInfo::State::may_read_lines(Unit& unit) {
  if (!unit.has_lines) unit.has_lines = has_small_line_table(unit);
  return *unit.has_lines;
}

bool DebugInfo::State::has_small_line_table(Unit& unit) {
  const auto offset = number_at(unit.die, DW_AT_stmt_list);
  std::size_t names = 0;
  if (!offset || elf_getshdrstrndx(file->elf(), &names) != 0) return false;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(file->elf(), section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) return false;
    const char* const name = elf_strptr(file->elf(), names, header.sh_name);
    if (name == nullptr || std::string_view(name) != ".debug_line") continue;
    const Elf_Data* const data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) return false;
    const auto size = read_at<std::uint32_t>(
        std::span(static_cast<const std::byte*>(data->d_buf), data->d_size), *offset);
    return size && *size <= kMaxLineTableBytes;
  }
  return false;
}

std::optional<DebugPlace> DebugInfo::State::definition_of(Unit& unit, Dwarf_Die& die) {
  if (!may_read_lines(unit)) return std::nullopt;
  int line = 0;
  const char* const file_name = dwarf_decl_file(&die);
  if (file_name == nullptr || dwarf_decl_line(&die, &line) != 0 || line <= 0) return std::nullopt;
  return DebugPlace{normal(file_name), static_cast<std::uint32_t>(line)};
}

// Replaces a function, block or inlined function by the next one in it that contains the address.
// Returns false if there is none.
bool DebugInfo::State::inlined_child_at(Dwarf_Die& die, std::uint64_t address) {
  Dwarf_Die child;
  if (dwarf_child(&die, &child) != 0) return false;
  do {
    if (!visit()) return false;
    const int tag = dwarf_tag(&child);
    if ((tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block) &&
        dwarf_haspc(&child, address) == 1) {
      die = child;
      return true;
    }
  } while (dwarf_siblingof(&child, &child) == 0);
  return false;
}

// Returns the line that calls an inlined function; 0 if it isn't in the file of the function `in`.
std::uint32_t DebugInfo::State::call_line_of(Unit& unit, Dwarf_Die& inlined,
                                             const std::optional<DebugPlace>& in) {
  const auto file_number = number_at(inlined, DW_AT_call_file);
  Dwarf_Files* files = nullptr;
  std::size_t count = 0;
  if (!in || !file_number || dwarf_getsrcfiles(&unit.die, &files, &count) != 0 ||
      *file_number >= count)
    return 0;
  const char* const name = dwarf_filesrc(files, *file_number, nullptr, nullptr);
  if (name == nullptr || normal(name) != in->file) return 0;
  return line_number(number_at(inlined, DW_AT_call_line));
}

// Returns the qualified name of a function that has no linkage name. A DIE has no reference to the
// one around it, so the search begins at the unit.
std::string DebugInfo::State::scoped_name(Dwarf_Die die) {
  const Dwarf_Die target = origin_of(die);
  Dwarf_Die scope;
  if (dwarf_diecu(const_cast<Dwarf_Die*>(&target), &scope, nullptr, nullptr) == nullptr) return {};
  std::string qualified;
  while (qualified.size() < kMaxNameLength) {
    Dwarf_Die child;
    if (dwarf_child(&scope, &child) != 0) break;
    // The last sibling that does not begin behind the target is it, or contains it.
    std::optional<Dwarf_Die> next;
    do {
      if (!visit() || child.addr > target.addr) break;
      next = child;
    } while (dwarf_siblingof(&child, &child) == 0);
    if (!next) break;
    scope = *next;
    const std::string name = scope_name(scope);
    if (!name.empty()) qualified += (qualified.empty() ? "" : "::") + name;
    if (scope.addr == target.addr) return qualified;
  }
  return std::string(name_of(die));
}

DebugInfo::DebugInfo(std::unique_ptr<State> state) : state_(std::move(state)) {}
DebugInfo::~DebugInfo() = default;

std::unique_ptr<DebugInfo> DebugInfo::read(MappedFile file, const std::string& build_id) {
  auto opened = DebugFile::open(std::move(file), build_id);
  if (opened == nullptr) return nullptr;
  return std::unique_ptr<DebugInfo>(new DebugInfo(std::make_unique<State>(std::move(opened))));
}

std::unique_ptr<DebugInfo> DebugInfo::open(const std::filesystem::path& path,
                                           const std::string& build_id) {
  try {
    const ModuleSymbols module(path);
    if (module.build_id() != build_id) return nullptr;
    for (const std::filesystem::path& file : debug_files(module))
      if (auto found = read(MappedFile(file), build_id)) return found;
  } catch (const Error&) {
    // The file is gone or can't be read: there is no debug info.
    return nullptr;
  }
  return nullptr;
}

std::optional<DebugPlace> DebugInfo::definition_at(std::uint64_t address) {
  State::Unit* const unit = state_->unit_at(address);
  if (unit == nullptr) return std::nullopt;
  std::optional<Dwarf_Die> function = state_->function_at(*unit, address);
  return function ? state_->definition_of(*unit, *function) : std::nullopt;
}

DebugCall DebugInfo::call_before(std::uint64_t return_address) {
  const std::uint64_t address = return_address - 1;
  State::Unit* const unit = return_address == 0 ? nullptr : state_->unit_at(address);
  if (unit == nullptr || !state_->may_read_lines(*unit)) return {};
  std::optional<Dwarf_Die> die = state_->function_at(*unit, address);
  if (!die) return {};
  DebugCall call;
  std::optional<DebugPlace> innermost = state_->definition_of(*unit, *die);
  while (call.inlined.size() < kMaxInlined && state_->inlined_child_at(*die, address)) {
    if (dwarf_tag(&*die) != DW_TAG_inlined_subroutine) continue;
    InlinedFunction inlined;
    inlined.symbol = linkage_name_of(*die);
    inlined.name = inlined.symbol.empty() ? state_->scoped_name(*die) : std::string();
    inlined.call_line = state_->call_line_of(*unit, *die, innermost);
    innermost = inlined.definition = state_->definition_of(*unit, *die);
    call.inlined.push_back(std::move(inlined));
  }
  Dwarf_Line* const line = dwarf_getsrc_die(&unit->die, address);
  const char* const file = line == nullptr ? nullptr : dwarf_linesrc(line, nullptr, nullptr);
  int number = 0;
  if (file != nullptr && innermost && normal(file) == innermost->file &&
      dwarf_lineno(line, &number) == 0 && number > 0)
    call.line = static_cast<std::uint32_t>(number);
  return call;
}

}  // namespace optrace
