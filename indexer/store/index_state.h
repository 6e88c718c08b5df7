#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "indexer/store/index_sections.h"
#include "indexer/store/index_store.h"

namespace optrace {

using index_format::SectionKind;

/// An index as its sections, and what its look-ups share.
struct Index::State {
  explicit State(const std::filesystem::path& path)
      : sections(path),
        file_names(sections.all_terminated(SectionKind::files)),
        result_texts(sections.all_terminated(SectionKind::result_types)) {}

  std::string_view file_name(std::uint32_t number) const {
    if (number >= file_names.size()) sections.fail("corrupt: an entry has no file");
    return file_names[number];
  }

  std::string_view symbol(std::uint32_t rank) const {
    return sections.name(index_format::kSymbols, rank);
  }

  // Returns all symbols, each with its terminating NUL.
  std::string_view all_symbols() const {
    return sections.text(SectionKind::symbols, 0, sections.size(SectionKind::symbols));
  }

  // Returns an enumerator that was read, in the range 0 ... `last`.
  template <typename Kind>
  Kind checked(Kind kind, Kind last) const {
    if (kind > last) sections.fail("corrupt: an entry has an unknown kind");
    return kind;
  }

  // Returns a location whose line has the bounds of row `index`.
  template <typename Bounds>
  SourceLocation location(std::string_view path, std::uint32_t line, std::uint64_t index) const {
    SourceLocation made{path, line, {}};
    if (sections.size(Bounds::kBefore) == 0) return made;
    const auto [before, behind] = sections.row<Bounds>(index);
    if (before == 0 && behind == 0) return made;
    made.approximate = LineInterval{};
    constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
    if (before < line && behind < kLast - line)
      made.approximate = LineInterval{line - before, line + behind};
    return made;
  }

  // Returns the ranks of the first and one past the last definition of a symbol.
  std::pair<std::uint32_t, std::uint32_t> definitions_of(std::string_view canonical_symbol) const;
  std::optional<std::uint32_t> choose_definition(std::string_view canonical_symbol,
                                                 std::string_view source_file,
                                                 std::string_view library) const;
  Definition definition(std::uint32_t rank) const;
  Definition definition(std::uint32_t rank, std::string_view symbol) const;
  // Returns the text of the type of a definition's result; empty if there is none.
  std::string_view result(std::uint32_t rank) const;
  // Calls `visit(rank, definition)` for each definition, sorted by symbol.
  template <typename Visit>
  void each_definition(const Visit& visit) const;

  // Returns the call sites of a definition.
  std::vector<CallSite> calls(std::uint32_t rank, const Definition& caller) const;
  CallSite call(std::uint32_t index, const Definition& caller) const;
  // Returns the definition that contains a call site.
  std::uint32_t caller_of(std::uint32_t call) const;

  OpEntry op(std::uint64_t offset, std::uint32_t rank) const;
  std::string_view facts(std::uint32_t rank) const;
  Registration registration(std::uint32_t rank) const;
  PythonName python_name(std::uint64_t offset, std::uint32_t rank) const;

  IndexSections sections;
  std::vector<std::string_view> file_names;
  std::vector<std::string_view> result_texts;
};

template <typename Visit>
void Index::State::each_definition(const Visit& visit) const {
  // Both sections ascend, so one pass over the names is enough.
  std::uint64_t offset = 0;
  std::uint32_t current = 0;
  const auto count = sections.count<index_format::DefinitionRow>();
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const std::uint32_t symbol = sections.number(SectionKind::definition_symbols, rank);
    if (symbol < current) sections.fail("corrupt: definitions are out of order");
    for (; current < symbol; ++current)
      offset += sections.terminated(SectionKind::symbols, offset).size() + 1;
    visit(rank, definition(rank, sections.terminated(SectionKind::symbols, offset)));
  }
}

}  // namespace optrace
