#include "platform/elf/module_symbols.h"

#include <cstring>
#include <limits>

#include <elf.h>
#include <xxhash.h>

#include "platform/elf/elf_text.h"
#include "platform/elf/read_at.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxPathLength = 4096;  // For needed libraries.

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

}  // namespace

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
  for (std::size_t i = 0; i < keys.size(); ++i)
    distinct += i == 0 || keys[i] >> 32 != keys[i - 1] >> 32 ? 1U : 0U;
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
      if (fde && fde->address == entry.value)
        size = code(entry.value, fde->size).size();
      else if (end < keys.size())
        size = code(entry.value, (keys[end] >> 32) - (keys[i] >> 32)).size();
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
  if (address < base_ || address - base_ > std::numeric_limits<std::uint32_t>::max())
    return std::nullopt;
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
  if (const auto fde = fde_at(address))
    return NativeFunction{fde->address, fde->size, {}, true, false};
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
    if (!parent || (candidate->local && source_file(*candidate) == source_file(part)))
      parent = candidate;
  }
  if (parent) cold_parents_[part.address] = parent->address;
  return parent;
}

bool ModuleSymbols::is_cold_part(const NativeFunction& part, const NativeFunction& function) const {
  const auto parent_name = part.local ? cold_parent_name(part.symbol) : std::nullopt;
  if (!parent_name || parent_name->size() != function.symbol.size()) return false;
  const auto differ = std::ranges::mismatch(*parent_name, function.symbol);
  if (differ.in1 == parent_name->end())
    return !function.local || source_file(part) == source_file(function);
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
      for (const Segment& segment : segments_)
        if (entry->d_un.d_ptr - segment.address < segment.bytes.size())
          texts = segment.bytes.subspan(entry->d_un.d_ptr - segment.address);
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
  if (const std::size_t behind = fdes_up_to(address); behind > 0)
    last = std::max(last.value_or(0), fde_start(behind - 1));
  return last;
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

}  // namespace optrace
