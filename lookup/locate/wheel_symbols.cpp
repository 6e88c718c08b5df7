#include "lookup/locate/wheel_symbols.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <system_error>

#include <elf.h>
#include <fmt/core.h>

#include "platform/elf/dynamic_symbols.h"
#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "pytorch/installed/wheel_libraries.h"

namespace optrace {
namespace {

// Returns the value at `offset`, if it lies within the file.
template <typename Value>
std::optional<Value> value_at(std::span<const std::byte> file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(Value)) return std::nullopt;
  Value value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

// Returns the string tables of an ELF file, which include the names of its symbols.
std::vector<std::string_view> string_tables(std::span<const std::byte> file) {
  std::vector<std::string_view> tables;
  const auto header = value_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64)
    return tables;
  for (unsigned at = 0; at < header->e_shnum; ++at) {
    const auto section =
        value_at<Elf64_Shdr>(file, header->e_shoff + std::uint64_t{at} * sizeof(Elf64_Shdr));
    if (!section || section->sh_type != SHT_STRTAB || section->sh_offset > file.size() ||
        file.size() - section->sh_offset < section->sh_size)
      continue;
    tables.emplace_back(reinterpret_cast<const char*>(file.data() + section->sh_offset),
                        section->sh_size);
  }
  return tables;
}

// Returns the longest word of a name, with its length before it. Template arguments may separate
// the words in a symbol.
std::string mangled_part(const std::vector<std::string>& components) {
  const auto longest = std::ranges::max_element(
      components, [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  return fmt::format("{}{}", longest->size(), *longest);
}

// Visits every string of a table that contains `part`.
template <typename Visit>
void each_string_with(std::string_view table, std::string_view part, Visit visit) {
  for (std::size_t at = 0; at < table.size();) {
    const void* const found =
        ::memmem(table.data() + at, table.size() - at, part.data(), part.size());
    if (found == nullptr) return;
    const auto hit = static_cast<std::size_t>(static_cast<const char*>(found) - table.data());
    const std::size_t before = hit == 0 ? std::string_view::npos : table.rfind('\0', hit - 1);
    const std::size_t start = before == std::string_view::npos ? 0 : before + 1;
    const std::size_t end = std::min(table.find('\0', hit), table.size());
    if (!visit(table.substr(start, end - start))) return;
    at = end;
  }
}

bool is_named(std::string_view symbol, const NameQuery& query) {
  if (!symbol.starts_with("_Z"))
    return query.components.size() == 1 && symbol == query.components[0];
  const std::vector<std::string> components = symbol_components(symbol);
  const NameFit found = fit(components, query.components);
  return found <= NameFit::suffix_symint;
}

}  // namespace

std::vector<std::filesystem::path> WheelSymbols::files() const {
  std::error_code unreadable;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(libraries_, unreadable)) {
    const std::string name = entry.path().filename();
    if (is_torch_library(name) && name.ends_with(".so")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

bool WheelSymbols::any_with(std::string_view part,
                            const std::function<bool(std::string_view)>& fits) const {
  bool read = false;
  bool found = false;
  for (const std::filesystem::path& file : files()) {
    try {
      const MappedFile mapped(file);
      for (const std::string_view table : string_tables(mapped.bytes())) {
        read = true;
        each_string_with(table, part, [&](std::string_view text) {
          found = fits(text.substr(0, text.find('@')));
          return !found;
        });
        if (found) return true;
      }
    } catch (const Error&) {
      continue;
    }
  }
  return !read;
}

std::vector<WheelSymbol> WheelSymbols::find(const NameQuery& query, std::size_t limit) const {
  std::vector<WheelSymbol> found;
  const bool mangled = query.form == NameForm::mangled;
  if (!mangled && query.components.empty()) return found;
  const std::string part = mangled                        ? query.text
                           : query.components.size() == 1 ? query.components[0]
                                                          : mangled_part(query.components);
  constexpr std::size_t kMinPartLength = 3;  // Letters. Shorter parts are in too many names.
  if (part.size() < kMinPartLength) return found;
  std::set<std::string> seen;
  for (const std::filesystem::path& file : files()) {
    try {
      const MappedFile mapped(file);
      std::vector<std::string> symbols;
      for (const std::string_view table : string_tables(mapped.bytes()))
        each_string_with(table, part, [&](std::string_view text) {
          const std::string_view symbol = text.substr(0, text.find('@'));
          const bool matches = mangled ? symbol == query.text : is_named(symbol, query);
          if (matches && seen.emplace(symbol).second) symbols.emplace_back(symbol);
          return symbols.size() < limit;
        });
      if (symbols.empty()) continue;
      const DynamicImports imports = read_dynamic_imports(file);
      for (const std::string& symbol : symbols) {
        if (found.size() == limit) return found;
        const auto import = std::ranges::find_if(
            imports.symbols, [&](const DynamicImport& one) { return one.name == symbol; });
        const std::string name = file.filename();
        if (import == imports.symbols.end())
          found.push_back({symbol, name, {}});
        else
          found.push_back({symbol, import->library, name});
      }
    } catch (const Error&) {
      continue;  // A damaged library has no names; search the others.
    }
  }
  return found;
}

}  // namespace optrace
