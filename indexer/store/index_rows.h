#pragma once

// The rows of an index's tables. Each field of a row is a column: a section of its own. Writer and
// reader take the columns from each_column(), which calls `visit(section, field)` for each field,
// in the order of the sections in the file.

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "indexer/store/index_contents.h"
#include "indexer/store/index_format.h"

namespace optrace::index_format {

/// Names in a section, sorted, each of `parts` texts, and the section with the offset of every 16th
/// name.
struct NameTable {
  SectionKind names;
  SectionKind blocks;
  int parts;
};

inline constexpr NameTable kSymbols{SectionKind::symbols, SectionKind::symbol_blocks, 1};
inline constexpr NameTable kOps{SectionKind::ops, SectionKind::op_blocks, 2};
inline constexpr NameTable kRegistrationTexts{SectionKind::registration_texts,
                                              SectionKind::registration_text_blocks, 1};
inline constexpr NameTable kPythonNames{SectionKind::python_names, SectionKind::python_blocks, 2};

struct DefinitionRow {
  std::uint32_t symbol = 0;
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  std::uint32_t first_call = 0;  ///< The column has one more entry: the number of all calls.
  DefinitionKind kind{};
};

struct CallRow {
  std::uint32_t callee = 0;
  std::int32_t distance = 0;  ///< Its line minus the definition's line.
  CallKind kind{};
};

struct OpRow {
  std::uint32_t line = 0;
};

struct OpFactsRow {
  std::uint32_t start = 0;  ///< Offset in SectionKind::op_facts.
};

struct RegistrationRow {
  std::uint32_t name = 0;
  std::uint32_t key = 0;
  std::uint32_t function = 0;  ///< 1 + the symbol's number; 0: none.
  RegistrationKind kind{};
  std::uint32_t file = 0;
  std::uint32_t line = 0;
};

struct PythonNameRow {
  char kind = 0;
  std::uint32_t file = 0;  ///< 1 + the file's number; 0: none.
  std::uint32_t line = 0;
};

struct AnchorRow {
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  std::uint32_t key = 0;
};

struct ResultRow {
  std::uint32_t type = 0;  ///< 1 + the number of the type; 0: none.
};

/// How far from a line the true one may lie: a row for each definition, call or registration, or
/// none at all if all lines are exact.
template <SectionKind before_kind, SectionKind behind_kind>
struct BoundsRow {
  std::uint32_t before = 0;
  std::uint32_t behind = 0;
  static constexpr SectionKind kBefore = before_kind;
  static constexpr SectionKind kBehind = behind_kind;
};

using DefinitionBounds =
    BoundsRow<SectionKind::definition_lines_before, SectionKind::definition_lines_behind>;
using CallBounds = BoundsRow<SectionKind::call_lines_before, SectionKind::call_lines_behind>;
using RegistrationBounds =
    BoundsRow<SectionKind::registration_lines_before, SectionKind::registration_lines_behind>;

template <typename T, typename Row>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Row>;

template <MaybeConst<DefinitionRow> Row, typename Visit>
void each_column(Row& row, const Visit& visit) {
  visit(SectionKind::definition_symbols, row.symbol);
  visit(SectionKind::definition_files, row.file);
  visit(SectionKind::definition_lines, row.line);
  visit(SectionKind::definition_calls, row.first_call);
  visit(SectionKind::definition_kinds, row.kind);
}

template <MaybeConst<CallRow> Row, typename Visit>
void each_column(Row& row, const Visit& visit) {
  visit(SectionKind::call_callees, row.callee);
  visit(SectionKind::call_lines, row.distance);
  visit(SectionKind::call_kinds, row.kind);
}

template <MaybeConst<OpRow> Row, typename Visit>
void each_column(Row& row, const Visit& visit) {
  visit(SectionKind::op_lines, row.line);
}

template <MaybeConst<OpFactsRow> Row, typename Visit>
void each_column(Row& row, const Visit& visit) {
  visit(SectionKind::op_fact_starts, row.start);
}

template <MaybeConst<RegistrationRow> Row, typename Visit>
void each_column(Row& row, const Visit& visit) {
  visit(SectionKind::registration_names, row.name);
  visit(SectionKind::registration_keys, row.key);
  visit(SectionKind::registration_functions, row.function);
  visit(SectionKind::registration_kinds, row.kind);
  visit(SectionKind::registration_files, row.file);
  visit(SectionKind::registration_lines, row.line);
}

template <MaybeConst<PythonNameRow> Row, typename Visit>
void each_column(Row& row, const Visit& visit) {
  visit(SectionKind::python_kinds, row.kind);
  visit(SectionKind::python_files, row.file);
  visit(SectionKind::python_lines, row.line);
}

template <MaybeConst<AnchorRow> Row, typename Visit>
void each_column(Row& row, const Visit& visit) {
  visit(SectionKind::anchor_files, row.file);
  visit(SectionKind::anchor_lines, row.line);
  visit(SectionKind::anchor_keys, row.key);
}

template <MaybeConst<ResultRow> Row, typename Visit>
void each_column(Row& row, const Visit& visit) {
  visit(SectionKind::definition_results, row.type);
}

template <typename Row, typename Visit>
  requires requires { std::remove_const_t<Row>::kBefore; }
void each_column(Row& row, const Visit& visit) {
  visit(Row::kBefore, row.before);
  visit(Row::kBehind, row.behind);
}

}  // namespace optrace::index_format
