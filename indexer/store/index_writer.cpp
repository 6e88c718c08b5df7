#include "indexer/store/index_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <xxhash.h>

#include "indexer/store/index_format.h"
#include "indexer/store/index_rows.h"
#include "platform/error.h"
#include "platform/files/output_file.h"

namespace optrace {
namespace {

using namespace index_format;

std::uint32_t checked_u32(std::size_t value) {
  if (value > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ExitStatus::failed, "the index is larger than its format allows",
                "An index can contain at most 4 GiB of names. Report this as a defect of optrace.");
  }
  return static_cast<std::uint32_t>(value);
}

/// The data part of the file while it is built.
class Sections {
 public:
  void add(SectionKind kind, std::size_t count, std::string_view bytes) {
    data_.resize((data_.size() + 7) / 8 * 8);
    table_.push_back({kind, checked_u32(count), data_.size(), bytes.size()});
    data_ += bytes;
  }

  /// Adds texts, each NUL-terminated.
  void add_texts(SectionKind kind, const std::vector<std::string>& texts) {
    std::string bytes;
    for (const std::string& text : texts) bytes.append(text).push_back('\0');
    add(kind, texts.size(), bytes);
  }

  /// Adds names, each a sequence of NUL-separated texts, and the offset of every 16th name.
  void add_names(const NameTable& table, const std::vector<std::string>& names) {
    add_texts(table.names, names);
    std::string blocks;
    std::size_t offset = 0;
    for (std::size_t number = 0; number < names.size(); ++number) {
      if (number % kNamesPerBlock == 0) {
        const std::uint32_t start = checked_u32(offset);
        blocks.append(reinterpret_cast<const char*>(&start), sizeof start);
      }
      offset += names[number].size() + 1;
    }
    add(table.blocks, blocks.size() / sizeof(std::uint32_t), blocks);
  }

  void write(const std::filesystem::path& path) const {
    std::string front(table_.size() * sizeof(Section), '\0');
    std::memcpy(front.data(), table_.data(), front.size());
    std::uint64_t block_count = 0;
    for (std::size_t at = 0; at < data_.size(); at += kBlockSize, ++block_count) {
      const auto block = std::string_view(data_).substr(at, kBlockSize);
      const std::uint64_t checksum = XXH3_64bits(block.data(), block.size());
      front.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
    }
    Header header{};
    std::copy(std::begin(kMagic), std::end(kMagic), header.magic);
    header.version = kVersion;
    header.section_count = checked_u32(table_.size());
    header.data_offset = sizeof header + front.size();
    header.file_size = header.data_offset + data_.size();
    header.block_count = block_count;
    header.checksum = XXH3_64bits(front.data(), front.size());
    OutputFile file(path);
    file.write(std::as_bytes(std::span(&header, 1)));
    file.write(front);
    file.write(data_);
    file.commit();
  }

 private:
  std::vector<Section> table_;
  std::string data_;
};

std::vector<std::string> sorted_unique(std::vector<std::string> names) {
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

class Numbers {
 public:
  explicit Numbers(const std::vector<std::string>& names) {
    for (std::size_t number = 0; number < names.size(); ++number)
      by_name_.emplace(names[number], static_cast<std::uint32_t>(number));
  }
  std::uint32_t operator[](std::string_view name) const { return by_name_.at(name); }

 private:
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
};

void merge_repeated(std::vector<IndexContents::Function>& functions) {
  std::ranges::sort(functions, [](const auto& left, const auto& right) {
    return std::tie(left.symbol, left.file, left.line, left.calls) <
           std::tie(right.symbol, right.file, right.line, right.calls);
  });
  std::vector<IndexContents::Function> merged;
  for (auto& function : functions) {
    if (!merged.empty() && merged.back().symbol == function.symbol &&
        merged.back().file == function.file) {
      auto& calls = merged.back().calls;
      calls.insert(calls.end(), function.calls.begin(), function.calls.end());
      merged.back().kind = std::max(merged.back().kind, function.kind);  // The more specific one.
      // Overloads of a template share a key: of different types, none is known.
      if (merged.back().result != function.result) merged.back().result.clear();
    } else {
      merged.push_back(std::move(function));
    }
  }
  for (auto& function : merged) {
    auto& calls = function.calls;
    std::ranges::sort(calls, [](const auto& left, const auto& right) {
      return std::tie(left.line, left.callee, left.kind) <
             std::tie(right.line, right.callee, right.kind);
    });
    calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  }
  functions = std::move(merged);
}

/// Sorts the contents in the order of the file.
void put_in_order(IndexContents& contents) {
  merge_repeated(contents.functions);
  auto& registrations = contents.registrations;
  std::ranges::sort(registrations, [](const auto& left, const auto& right) {
    return std::tie(left.name, left.kind, left.key, left.file, left.line, left.function) <
           std::tie(right.name, right.kind, right.key, right.file, right.line, right.function);
  });
  registrations.erase(std::unique(registrations.begin(), registrations.end()), registrations.end());
  std::ranges::sort(contents.ops, [](const auto& left, const auto& right) {
    return std::tie(left.unambiguous_name, left.name, left.line, left.facts) <
           std::tie(right.unambiguous_name, right.name, right.line, right.facts);
  });
  auto& anchors = contents.anchors;
  std::ranges::sort(anchors);
  anchors.erase(std::unique(anchors.begin(), anchors.end()), anchors.end());
  auto& names = contents.python_names;
  std::ranges::sort(names);
  names.erase(
      std::unique(names.begin(), names.end(),
                  [](const auto& left, const auto& right) { return left.name == right.name; }),
      names.end());
}

/// The rows of a table, as columns.
template <typename Row>
class Columns {
 public:
  void add(const Row& row) {
    each_column(row, [&](SectionKind kind, auto field) { append(kind, field); });
  }

  /// Adds a number to one column only.
  template <typename Number>
  void append(SectionKind kind, Number number) {
    columns_[kind].append(reinterpret_cast<const char*>(&number), sizeof number);
  }

  void write(Sections& sections) const {
    const Row none;
    each_column(none, [&](SectionKind kind, auto field) {
      const auto column = columns_.find(kind);
      const std::string_view bytes = column == columns_.end() ? std::string_view() : column->second;
      sections.add(kind, bytes.size() / sizeof field, bytes);
    });
  }

 private:
  std::map<SectionKind, std::string> columns_;
};

/// The bounds of lines.
template <typename Row>
class Intervals {
 public:
  void add(std::uint32_t line, const std::optional<LineInterval>& approximate) {
    any_ = any_ || approximate.has_value();
    // Bounds that equal the line would mean that it is exact.
    const bool bounded = approximate && approximate->first <= line && line <= approximate->last &&
                         approximate->first < approximate->last;
    const std::uint32_t unknown = approximate ? kNoBound : 0;
    Row row{unknown, unknown};
    if (bounded) row = {line - approximate->first, approximate->last - line};
    columns_.add(row);
  }
  /// Writes the columns, unless all lines are exact.
  void write(Sections& sections) const {
    if (any_) columns_.write(sections);
  }

 private:
  Columns<Row> columns_;
  bool any_ = false;
};

/// The sorted names to which other sections refer by number.
struct Tables {
  explicit Tables(const IndexContents& contents);
  std::vector<std::string> files;
  std::vector<std::string> symbols;
  std::vector<std::string> registration_texts;
  std::vector<std::string> result_types;
};

Tables::Tables(const IndexContents& contents) {
  for (const auto& function : contents.functions) {
    files.push_back(function.file);
    symbols.push_back(function.symbol);
    if (!function.result.empty()) result_types.push_back(function.result);
    for (const auto& call : function.calls) symbols.push_back(call.callee);
  }
  for (const auto& registration : contents.registrations) {
    files.push_back(registration.file);
    registration_texts.push_back(registration.name);
    registration_texts.push_back(registration.key);
    if (!registration.function.empty()) symbols.push_back(registration.function);
  }
  for (const auto& name : contents.python_names)
    if (!name.file.empty()) files.push_back(name.file);
  for (const auto& anchor : contents.anchors) files.push_back(anchor.file);
  files = sorted_unique(std::move(files));
  symbols = sorted_unique(std::move(symbols));
  registration_texts = sorted_unique(std::move(registration_texts));
  result_types = sorted_unique(std::move(result_types));
}

void add_functions(const std::vector<IndexContents::Function>& functions,
                   const Numbers& file_numbers, const Numbers& symbol_numbers, Sections& sections) {
  Columns<DefinitionRow> definitions;
  Columns<CallRow> calls;
  Intervals<DefinitionBounds> definition_intervals;
  Intervals<CallBounds> call_intervals;
  std::size_t call_count = 0;
  for (const auto& function : functions) {
    definition_intervals.add(function.line, function.approximate);
    definitions.add({.symbol = symbol_numbers[function.symbol],
                     .file = file_numbers[function.file],
                     .line = function.line,
                     .first_call = checked_u32(call_count),
                     .kind = function.kind});
    call_count += function.calls.size();
    for (const auto& call : function.calls) {
      calls.add({.callee = symbol_numbers[call.callee],
                 .distance = static_cast<std::int32_t>(call.line - function.line),
                 .kind = call.kind});
      call_intervals.add(call.line, call.approximate);
    }
  }
  definitions.append(SectionKind::definition_calls, checked_u32(call_count));
  definitions.write(sections);
  calls.write(sections);
  definition_intervals.write(sections);
  call_intervals.write(sections);
}

void add_results(const std::vector<IndexContents::Function>& functions,
                 const std::vector<std::string>& result_types, Sections& sections) {
  if (result_types.empty()) return;
  const Numbers numbers(result_types);
  Columns<ResultRow> results;
  for (const auto& function : functions)
    results.add({function.result.empty() ? 0 : numbers[function.result] + 1});
  sections.add_texts(SectionKind::result_types, result_types);
  results.write(sections);
}

void add_ops(const std::vector<IndexContents::Op>& ops, Sections& sections) {
  std::vector<std::string> names;
  Columns<OpRow> rows;
  std::vector<std::string> facts;
  Columns<OpFactsRow> fact_rows;
  std::size_t start = 0;
  for (const auto& op : ops) {
    names.push_back(op.unambiguous_name + '\0' + op.name);
    rows.add({op.line});
    facts.push_back(op.facts);
    fact_rows.add({checked_u32(start)});
    start += op.facts.size() + 1;
  }
  sections.add_names(kOps, names);
  rows.write(sections);
  sections.add_texts(SectionKind::op_facts, facts);
  fact_rows.write(sections);
}

void add_registrations(const std::vector<IndexContents::Registration>& registrations,
                       const Tables& tables, const Numbers& file_numbers,
                       const Numbers& symbol_numbers, Sections& sections) {
  const Numbers text_numbers(tables.registration_texts);
  Columns<RegistrationRow> rows;
  Intervals<RegistrationBounds> intervals;
  for (const auto& registration : registrations) {
    const std::string& function = registration.function;
    intervals.add(registration.line, registration.approximate);
    rows.add({.name = text_numbers[registration.name],
              .key = text_numbers[registration.key],
              .function = function.empty() ? 0 : symbol_numbers[function] + 1,
              .kind = registration.kind,
              .file = file_numbers[registration.file],
              .line = registration.line});
  }
  sections.add_names(kRegistrationTexts, tables.registration_texts);
  rows.write(sections);
  intervals.write(sections);
}

void add_python_names(const std::vector<IndexContents::PythonName>& python_names,
                      const Numbers& file_numbers, Sections& sections) {
  std::vector<std::string> names;
  Columns<PythonNameRow> rows;
  for (const auto& name : python_names) {
    names.push_back(name.name + '\0' + name.target);
    PythonNameRow row{.kind = name.kind};
    if (!name.file.empty()) {
      row.file = file_numbers[name.file] + 1;
      row.line = name.line;
    }
    rows.add(row);
  }
  sections.add_names(kPythonNames, names);
  rows.write(sections);
}

void add_anchors(const std::vector<IndexedAnchor>& anchors, const Numbers& file_numbers,
                 Sections& sections) {
  if (anchors.empty()) return;
  Columns<AnchorRow> rows;
  for (const auto& anchor : anchors)
    rows.add({.file = file_numbers[anchor.file], .line = anchor.line, .key = anchor.key});
  rows.write(sections);
}

}  // namespace

void write_index(IndexContents contents, const std::filesystem::path& path) {
  put_in_order(contents);
  const Tables tables(contents);
  const Numbers file_numbers(tables.files);
  const Numbers symbol_numbers(tables.symbols);
  Sections sections;
  std::string meta;
  for (const auto& [key, value] : contents.meta) {
    meta.append(key).push_back('\0');
    meta.append(value).push_back('\0');
  }
  sections.add(SectionKind::meta, contents.meta.size(), meta);
  sections.add_texts(SectionKind::files, tables.files);
  sections.add_names(kSymbols, tables.symbols);
  add_functions(contents.functions, file_numbers, symbol_numbers, sections);
  add_results(contents.functions, tables.result_types, sections);
  add_ops(contents.ops, sections);
  add_registrations(contents.registrations, tables, file_numbers, symbol_numbers, sections);
  add_python_names(contents.python_names, file_numbers, sections);
  add_anchors(contents.anchors, file_numbers, sections);
  sections.write(path);
}

}  // namespace optrace
