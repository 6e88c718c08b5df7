#include "indexer/store/index_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <xxhash.h>

#include "indexer/store/index_format.h"
#include "platform/error.h"
#include "platform/files/output_file.h"

namespace optrace {
namespace {

using index_format::SectionKind;

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

  template <typename Number>
  void add(SectionKind kind, const std::vector<Number>& numbers) {
    std::string bytes(numbers.size() * sizeof(Number), '\0');
    if (!numbers.empty()) {
      std::memcpy(bytes.data(), numbers.data(), bytes.size());
    }
    add(kind, numbers.size(), bytes);
  }

  /// Adds names, each a sequence of NUL-terminated parts, and the offset of every 16th name.
  void add_names(SectionKind kind, SectionKind blocks_kind, const std::vector<std::string>& names) {
    std::string bytes;
    std::vector<std::uint32_t> blocks;
    for (std::size_t number = 0; number < names.size(); ++number) {
      if (number % index_format::kNamesPerBlock == 0) {
        blocks.push_back(checked_u32(bytes.size()));
      }
      bytes += names[number];
      bytes += '\0';
    }
    add(kind, names.size(), bytes);
    add(blocks_kind, blocks);
  }

  void write(const std::filesystem::path& path) const {
    std::string front(table_.size() * sizeof(index_format::Section), '\0');
    std::memcpy(front.data(), table_.data(), front.size());
    std::uint64_t block_count = 0;
    for (std::size_t at = 0; at < data_.size(); at += index_format::kBlockSize, ++block_count) {
      const auto block = std::string_view(data_).substr(at, index_format::kBlockSize);
      const std::uint64_t checksum = XXH3_64bits(block.data(), block.size());
      front.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
    }
    index_format::Header header{};
    std::copy(std::begin(index_format::kMagic), std::end(index_format::kMagic), header.magic);
    header.version = index_format::kVersion;
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
  std::vector<index_format::Section> table_;
  std::string data_;
};

std::vector<std::string> sorted_unique(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

class Numbers {
 public:
  explicit Numbers(const std::vector<std::string>& names) {
    for (std::size_t number = 0; number < names.size(); ++number) {
      by_name_.emplace(names[number], static_cast<std::uint32_t>(number));
    }
  }
  std::uint32_t operator[](std::string_view name) const { return by_name_.at(name); }

 private:
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
};

void merge_repeated(std::vector<IndexContents::Function>& functions) {
  std::sort(functions.begin(), functions.end(), [](const auto& left, const auto& right) {
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
    std::sort(calls.begin(), calls.end(), [](const auto& left, const auto& right) {
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
  std::sort(registrations.begin(), registrations.end(), [](const auto& left, const auto& right) {
    return std::tie(left.name, left.kind, left.key, left.file, left.line, left.function) <
           std::tie(right.name, right.kind, right.key, right.file, right.line, right.function);
  });
  registrations.erase(std::unique(registrations.begin(), registrations.end()), registrations.end());
  std::sort(contents.ops.begin(), contents.ops.end(), [](const auto& left, const auto& right) {
    return std::tie(left.unambiguous_name, left.name, left.line, left.facts) <
           std::tie(right.unambiguous_name, right.name, right.line, right.facts);
  });
  auto& anchors = contents.anchors;
  std::sort(anchors.begin(), anchors.end());
  anchors.erase(std::unique(anchors.begin(), anchors.end()), anchors.end());
  auto& names = contents.python_names;
  std::sort(names.begin(), names.end());
  names.erase(
      std::unique(names.begin(), names.end(),
                  [](const auto& left, const auto& right) { return left.name == right.name; }),
      names.end());
}

/// The bounds of lines, as two columns.
class IntervalColumns {
 public:
  void add(std::uint32_t line, const std::optional<LineInterval>& approximate) {
    any_ = any_ || approximate.has_value();
    // Bounds that equal the line would mean that it is exact.
    const bool bounded = approximate && approximate->first <= line && line <= approximate->last &&
                         approximate->first < approximate->last;
    const std::uint32_t unknown = approximate ? index_format::kNoBound : 0;
    before_.push_back(bounded ? line - approximate->first : unknown);
    behind_.push_back(bounded ? approximate->last - line : unknown);
  }
  /// Writes the columns, unless all lines are exact.
  void write(SectionKind before, SectionKind behind, Sections& sections) const {
    if (!any_) return;
    sections.add(before, before_);
    sections.add(behind, behind_);
  }

 private:
  std::vector<std::uint32_t> before_;
  std::vector<std::uint32_t> behind_;
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
    for (const auto& call : function.calls) {
      symbols.push_back(call.callee);
    }
  }
  for (const auto& registration : contents.registrations) {
    files.push_back(registration.file);
    registration_texts.push_back(registration.name);
    registration_texts.push_back(registration.key);
    if (!registration.function.empty()) {
      symbols.push_back(registration.function);
    }
  }
  for (const auto& name : contents.python_names) {
    if (!name.file.empty()) {
      files.push_back(name.file);
    }
  }
  for (const auto& anchor : contents.anchors) files.push_back(anchor.file);
  files = sorted_unique(std::move(files));
  symbols = sorted_unique(std::move(symbols));
  registration_texts = sorted_unique(std::move(registration_texts));
  result_types = sorted_unique(std::move(result_types));
}

void add_functions(const std::vector<IndexContents::Function>& functions,
                   const Numbers& file_numbers, const Numbers& symbol_numbers, Sections& sections) {
  std::vector<std::uint32_t> definition_symbols;
  std::vector<std::uint32_t> definition_files;
  std::vector<std::uint32_t> definition_lines;
  std::vector<std::uint32_t> definition_calls;
  std::vector<std::uint8_t> definition_kinds;
  std::vector<std::uint32_t> call_callees;
  std::vector<std::int32_t> call_lines;
  std::vector<std::uint8_t> call_kinds;
  IntervalColumns definition_intervals;
  IntervalColumns call_intervals;
  for (const auto& function : functions) {
    definition_intervals.add(function.line, function.approximate);
    definition_symbols.push_back(symbol_numbers[function.symbol]);
    definition_files.push_back(file_numbers[function.file]);
    definition_lines.push_back(function.line);
    definition_calls.push_back(checked_u32(call_callees.size()));
    definition_kinds.push_back(static_cast<std::uint8_t>(function.kind));
    for (const auto& call : function.calls) {
      call_callees.push_back(symbol_numbers[call.callee]);
      call_lines.push_back(static_cast<std::int32_t>(call.line - function.line));
      call_kinds.push_back(static_cast<std::uint8_t>(call.kind));
      call_intervals.add(call.line, call.approximate);
    }
  }
  definition_calls.push_back(checked_u32(call_callees.size()));
  sections.add(SectionKind::definition_symbols, definition_symbols);
  sections.add(SectionKind::definition_files, definition_files);
  sections.add(SectionKind::definition_lines, definition_lines);
  sections.add(SectionKind::definition_calls, definition_calls);
  sections.add(SectionKind::definition_kinds, definition_kinds);
  sections.add(SectionKind::call_callees, call_callees);
  sections.add(SectionKind::call_lines, call_lines);
  sections.add(SectionKind::call_kinds, call_kinds);
  definition_intervals.write(SectionKind::definition_lines_before,
                             SectionKind::definition_lines_behind, sections);
  call_intervals.write(SectionKind::call_lines_before, SectionKind::call_lines_behind, sections);
}

void add_results(const std::vector<IndexContents::Function>& functions,
                 const std::vector<std::string>& result_types, Sections& sections) {
  if (result_types.empty()) return;
  const Numbers numbers(result_types);
  std::string texts;
  for (const std::string& type : result_types) texts.append(type).push_back('\0');
  std::vector<std::uint32_t> results;
  results.reserve(functions.size());
  for (const auto& function : functions)
    results.push_back(function.result.empty() ? 0 : numbers[function.result] + 1);
  sections.add(SectionKind::result_types, result_types.size(), texts);
  sections.add(SectionKind::definition_results, results);
}

void add_ops(const std::vector<IndexContents::Op>& ops, Sections& sections) {
  std::vector<std::string> names;
  std::vector<std::uint32_t> lines;
  std::string facts;
  std::vector<std::uint32_t> starts;
  for (const auto& op : ops) {
    names.push_back(op.unambiguous_name + '\0' + op.name);
    lines.push_back(op.line);
    starts.push_back(checked_u32(facts.size()));
    facts += op.facts;
    facts += '\0';
  }
  sections.add_names(SectionKind::ops, SectionKind::op_blocks, names);
  sections.add(SectionKind::op_lines, lines);
  sections.add(SectionKind::op_facts, ops.size(), facts);
  sections.add(SectionKind::op_fact_starts, starts);
}

void add_registrations(const std::vector<IndexContents::Registration>& registrations,
                       const Tables& tables, const Numbers& file_numbers,
                       const Numbers& symbol_numbers, Sections& sections) {
  const Numbers text_numbers(tables.registration_texts);
  std::vector<std::uint32_t> names;
  std::vector<std::uint32_t> keys;
  std::vector<std::uint32_t> functions;
  std::vector<std::uint8_t> kinds;
  std::vector<std::uint32_t> files;
  std::vector<std::uint32_t> lines;
  IntervalColumns intervals;
  for (const auto& registration : registrations) {
    intervals.add(registration.line, registration.approximate);
    names.push_back(text_numbers[registration.name]);
    keys.push_back(text_numbers[registration.key]);
    functions.push_back(registration.function.empty() ? 0
                                                      : symbol_numbers[registration.function] + 1);
    kinds.push_back(static_cast<std::uint8_t>(registration.kind));
    files.push_back(file_numbers[registration.file]);
    lines.push_back(registration.line);
  }
  sections.add_names(SectionKind::registration_texts, SectionKind::registration_text_blocks,
                     tables.registration_texts);
  sections.add(SectionKind::registration_names, names);
  sections.add(SectionKind::registration_keys, keys);
  sections.add(SectionKind::registration_functions, functions);
  sections.add(SectionKind::registration_kinds, kinds);
  sections.add(SectionKind::registration_files, files);
  sections.add(SectionKind::registration_lines, lines);
  intervals.write(SectionKind::registration_lines_before, SectionKind::registration_lines_behind,
                  sections);
}

void add_python_names(const std::vector<IndexContents::PythonName>& python_names,
                      const Numbers& file_numbers, Sections& sections) {
  std::vector<std::string> names;
  std::vector<std::uint8_t> kinds;
  std::vector<std::uint32_t> files;
  std::vector<std::uint32_t> lines;
  for (const auto& name : python_names) {
    names.push_back(name.name + '\0' + name.target);
    kinds.push_back(static_cast<std::uint8_t>(name.kind));
    files.push_back(name.file.empty() ? 0 : file_numbers[name.file] + 1);
    lines.push_back(name.file.empty() ? 0 : name.line);
  }
  sections.add_names(SectionKind::python_names, SectionKind::python_blocks, names);
  sections.add(SectionKind::python_kinds, kinds);
  sections.add(SectionKind::python_files, files);
  sections.add(SectionKind::python_lines, lines);
}

void add_anchors(const std::vector<IndexedAnchor>& anchors, const Numbers& file_numbers,
                 Sections& sections) {
  if (anchors.empty()) return;
  std::vector<std::uint32_t> files;
  std::vector<std::uint32_t> lines;
  std::vector<std::uint32_t> keys;
  for (const auto& anchor : anchors) {
    files.push_back(file_numbers[anchor.file]);
    lines.push_back(anchor.line);
    keys.push_back(anchor.key);
  }
  sections.add(SectionKind::anchor_files, files);
  sections.add(SectionKind::anchor_lines, lines);
  sections.add(SectionKind::anchor_keys, keys);
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
  std::string file_text;
  for (const auto& file : tables.files) {
    file_text += file;
    file_text += '\0';
  }
  sections.add(SectionKind::files, tables.files.size(), file_text);
  sections.add_names(SectionKind::symbols, SectionKind::symbol_blocks, tables.symbols);
  add_functions(contents.functions, file_numbers, symbol_numbers, sections);
  add_results(contents.functions, tables.result_types, sections);
  add_ops(contents.ops, sections);
  add_registrations(contents.registrations, tables, file_numbers, symbol_numbers, sections);
  add_python_names(contents.python_names, file_numbers, sections);
  add_anchors(contents.anchors, file_numbers, sections);
  sections.write(path);
}

}  // namespace optrace
