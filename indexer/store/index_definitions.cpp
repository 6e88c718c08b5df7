#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <tuple>

#include "indexer/store/index_state.h"
#include "pytorch/source/cpu_capability.h"
#include "pytorch/symbols/symbol_key.h"

namespace optrace {

using namespace index_format;

namespace {

// Returns `Foo.cpp` for `aten/Foo.cpp.AVX2.cpp`: ATen compiles a copy per CPU capability.
std::string_view source_name(std::string_view path) {
  return without_capability(path.substr(path.rfind('/') + 1));
}

// nvcc writes `_` for each character other than a letter or digit.
bool is_named_alike(std::string_view one, std::string_view other) {
  const auto is_mark = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; };
  return std::ranges::equal(one, other,
                            [&](char a, char b) { return a == b || (is_mark(a) && is_mark(b)); });
}

// Returns true if a file's functions can be in a library, by the folders that PyTorch's build uses
// for it (aten/src/ATen/CMakeLists.txt).
bool may_be_in(std::string_view library, std::string_view file) {
  const auto lies_in = [&](std::string_view folder) {
    return file.find(folder) != std::string_view::npos;
  };
  const bool for_hip = lies_in("/miopen/") || lies_in("/hip/");
  const bool for_cuda =
      lies_in("/cuda/") || lies_in("/cudnn/") || file.ends_with(".cu") || file.ends_with(".cuh");
  if (library.find("cuda") != std::string_view::npos) return for_cuda && !for_hip;
  if (library.find("hip") != std::string_view::npos) return for_cuda || for_hip;
  return !for_cuda && !for_hip;
}

/// Calls `visit(offset, all names up to the end of that symbol)` for the first occurrence of `part`
/// in each symbol that contains it, until `visit` returns false.
template <typename Visit>
void each_place_of(std::string_view part, std::string_view names, const Visit& visit) {
  if (part.find('\0') != std::string_view::npos) return;
  std::size_t at = 0;
  while (at < names.size()) {
    // memmem, not find: find searches for the first letter, which is a digit in most names.
    const void* hit = ::memmem(names.data() + at, names.size() - at, part.data(), part.size());
    if (hit == nullptr) return;
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(hit) - names.data());
    const std::size_t end = std::min(names.find('\0', offset), names.size() - 1);
    if (!visit(offset, names.substr(0, end))) return;
    at = end + 1;
  }
}

}  // namespace

bool is_header(std::string_view file) {
  return file.ends_with(".h") || file.ends_with(".cuh") || file.ends_with(".hpp");
}

std::pair<std::uint32_t, std::uint32_t> Index::State::definitions_of(
    std::string_view canonical_symbol) const {
  const auto searched = sections.rank_of(kSymbols, canonical_symbol);
  if (!searched) return {0, 0};
  return sections.equal_range(SectionKind::definition_symbols, *searched);
}

std::optional<std::uint32_t> Index::State::choose_definition(std::string_view canonical_symbol,
                                                             std::string_view source_file,
                                                             std::string_view library) const {
  auto [first, end] = definitions_of(canonical_symbol);
  if (first == end) {
    const std::string key = function_key(canonical_symbol);
    std::tie(first, end) = key == canonical_symbol ? std::pair(0U, 0U) : definitions_of(key);
  }
  if (first == end) return std::nullopt;
  if (end - first == 1) return first;
  // The general definition of a template may do nothing because the specializations do the work.
  const std::string_view key = symbol(sections.number(SectionKind::definition_symbols, first));
  const bool is_template = template_key(key) == key;
  const auto first_call = [&](std::uint32_t rank) {
    return sections.number(SectionKind::definition_calls, rank);
  };
  const auto is_general = [&](std::uint32_t rank) {
    return is_template && first_call(rank) == first_call(rank + 1U);
  };
  // Criteria in descending order of importance.
  const auto fitness = [&](std::uint32_t rank) {
    const std::string_view path = definition(rank).location.file;
    const bool alike =
        !source_file.empty() && is_named_alike(source_name(path), source_name(source_file));
    return std::tuple(!source_file.empty() && path == source_file, alike, !is_general(rank),
                      !source_file.empty() && is_header(path),
                      !library.empty() && may_be_in(library, path));
  };
  std::uint32_t chosen = first;
  for (std::uint32_t rank = first + 1; rank < end; ++rank)
    if (fitness(rank) > fitness(chosen)) chosen = rank;
  return chosen;
}

Definition Index::State::definition(std::uint32_t rank) const {
  return definition(rank, symbol(sections.number(SectionKind::definition_symbols, rank)));
}

Definition Index::State::definition(std::uint32_t rank, std::string_view symbol) const {
  const auto row = sections.row<DefinitionRow>(rank);
  return {symbol, location<DefinitionBounds>(file_name(row.file), row.line, rank),
          checked(row.kind, DefinitionKind::enumeration)};
}

std::string_view Index::State::result(std::uint32_t rank) const {
  if (sections.count<ResultRow>() == 0) return {};
  const std::uint32_t type = sections.row<ResultRow>(rank).type;
  if (type > result_texts.size()) sections.fail("corrupt: an entry has no type");
  return type == 0 ? std::string_view() : result_texts[type - 1];
}

std::vector<CallSite> Index::State::calls(std::uint32_t rank, const Definition& caller) const {
  std::vector<CallSite> found;
  const std::uint32_t end = sections.number(SectionKind::definition_calls, rank + 1U);
  for (std::uint32_t at = sections.number(SectionKind::definition_calls, rank); at < end; ++at)
    found.push_back(call(at, caller));
  return found;
}

CallSite Index::State::call(std::uint32_t index, const Definition& caller) const {
  const auto row = sections.row<CallRow>(index);
  const std::uint32_t line = caller.location.line + static_cast<std::uint32_t>(row.distance);
  return {symbol(row.callee), location<CallBounds>(caller.location.file, line, index),
          checked(row.kind, CallKind::reference)};
}

std::uint32_t Index::State::caller_of(std::uint32_t call) const {
  const std::uint64_t next = sections.upper_bound(SectionKind::definition_calls,
                                                  sections.count<DefinitionRow>() + 1U, call);
  if (next == 0) sections.fail("corrupt: a call has no function");
  return static_cast<std::uint32_t>(next - 1);
}

std::size_t Index::definition_count() const {
  return state_->sections.count<DefinitionRow>();
}

std::size_t Index::call_site_count() const {
  return state_->sections.count<CallRow>();
}

std::optional<Definition> Index::find_definition(std::string_view canonical_symbol,
                                                 std::string_view source_file,
                                                 std::string_view library) const {
  const auto rank = state_->choose_definition(canonical_symbol, source_file, library);
  return rank ? std::optional(state_->definition(*rank)) : std::nullopt;
}

std::vector<Definition> Index::find_definitions(std::string_view canonical_symbol) const {
  std::vector<Definition> found;
  const auto [first, end] = state_->definitions_of(canonical_symbol);
  for (std::uint32_t rank = first; rank < end; ++rank) found.push_back(state_->definition(rank));
  return found;
}

bool Index::has_result_types() const {
  return state_->sections.count<ResultRow>() != 0;
}

std::optional<ResultType> Index::result_type_of(std::string_view canonical_symbol,
                                                std::string_view source_file,
                                                std::string_view library) const {
  const auto rank = state_->choose_definition(canonical_symbol, source_file, library);
  const std::string_view text = rank ? state_->result(*rank) : std::string_view();
  if (text.empty()) return std::nullopt;
  auto type = parse_result_type(text);
  if (!type) state_->sections.fail("corrupt: the type of a result is none");
  return type;
}

std::vector<CallSite> Index::calls_of(std::string_view canonical_symbol,
                                      std::string_view source_file,
                                      std::string_view library) const {
  auto rank = state_->choose_definition(canonical_symbol, source_file, library);
  // A lambda that could not be identified: its function has the calls of all its lambdas.
  for (auto outer = enclosing_function(canonical_symbol); !rank && outer;
       outer = enclosing_function(*outer)) {
    rank = state_->choose_definition(*outer, source_file, library);
  }
  if (!rank) return {};
  return state_->calls(*rank, state_->definition(*rank));
}

std::vector<Definition> Index::find_definitions_with(std::string_view part,
                                                     std::size_t limit) const {
  const IndexSections& sections = state_->sections;
  std::vector<Definition> found;
  each_place_of(part, state_->all_symbols(), [&](std::size_t offset, std::string_view) {
    auto [first, end] =
        sections.equal_range(SectionKind::definition_symbols, sections.rank_at(kSymbols, offset));
    for (; first < end && found.size() < limit; ++first) found.push_back(state_->definition(first));
    return found.size() < limit;
  });
  return found;
}

void Index::each_symbol_with(std::string_view part,
                             const std::function<bool(std::string_view)>& visit) const {
  each_place_of(part, state_->all_symbols(), [&](std::size_t, std::string_view names) {
    return visit(names.substr(names.rfind('\0') + 1));
  });
}

void Index::each_definition(const std::function<void(const Definition&)>& visit) const {
  state_->each_definition([&](std::uint32_t, const Definition& definition) { visit(definition); });
}

void Index::each_function(
    const std::function<void(const Definition&, const std::vector<CallSite>&)>& visit) const {
  state_->each_definition([&](std::uint32_t rank, const Definition& definition) {
    visit(definition, state_->calls(rank, definition));
  });
}

std::vector<Caller> Index::callers_of(std::string_view canonical_symbol) const {
  const IndexSections& sections = state_->sections;
  std::vector<Caller> callers;
  const auto exact = sections.rank_of(kSymbols, canonical_symbol);
  const auto key = sections.rank_of(kSymbols, function_key(canonical_symbol));
  if (!exact && !key) return callers;
  const std::uint32_t searched = exact ? *exact : *key;
  const std::uint32_t or_callee = key ? *key : *exact;
  // A scan of all call sites: 4 MB take a millisecond; an inverse table would need as much space
  // again.
  const auto callees = sections.bytes(SectionKind::call_callees);
  const auto count = sections.count<CallRow>();
  for (std::uint32_t at = 0; at < count; ++at) {
    std::uint32_t callee = 0;
    std::memcpy(&callee, callees.data() + at * sizeof callee, sizeof callee);
    if (callee == searched || callee == or_callee) {
      const Definition caller = state_->definition(state_->caller_of(at));
      const CallSite call = state_->call(at, caller);
      callers.push_back({caller, call.location.line, call.location.approximate, call.kind});
    }
  }
  return callers;
}

}  // namespace optrace
