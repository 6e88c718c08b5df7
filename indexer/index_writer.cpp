#include "indexer/index_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <xxhash.h>

#include "indexer/index_format.h"
#include "platform/error.h"
#include "platform/output_file.h"

namespace optrace {
namespace {

using index_format::SectionKind;

std::uint32_t checked_u32(std::size_t value) {
  if (value > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ExitStatus::failed, "the index is larger than its format allows",
                "An index holds at most 4 GiB of names; this is a defect of optrace.");
  }
  return static_cast<std::uint32_t>(value);
}

/// The data part of the file while it grows.
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

  /// Names, each a run of NUL-terminated parts, and where every sixteenth starts.
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
    } else {
      merged.push_back(std::move(function));
    }
  }
  for (auto& function : merged) {
    auto& calls = function.calls;
    std::sort(calls.begin(), calls.end(), [](const auto& left, const auto& right) {
      return std::tie(left.line, left.callee) < std::tie(right.line, right.callee);
    });
    calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  }
  functions = std::move(merged);
}

void add_functions(const std::vector<IndexContents::Function>& functions, Sections& sections) {
  std::vector<std::string> files;
  std::vector<std::string> symbols;
  for (const auto& function : functions) {
    files.push_back(function.file);
    symbols.push_back(function.symbol);
    for (const auto& call : function.calls) {
      symbols.push_back(call.callee);
    }
  }
  files = sorted_unique(std::move(files));
  symbols = sorted_unique(std::move(symbols));
  const Numbers file_numbers(files);
  const Numbers symbol_numbers(symbols);

  std::vector<std::uint32_t> definition_symbols;
  std::vector<std::uint32_t> definition_files;
  std::vector<std::uint32_t> definition_lines;
  std::vector<std::uint32_t> definition_calls;
  std::vector<std::uint32_t> call_callees;
  std::vector<std::int32_t> call_lines;
  for (const auto& function : functions) {
    definition_symbols.push_back(symbol_numbers[function.symbol]);
    definition_files.push_back(file_numbers[function.file]);
    definition_lines.push_back(function.line);
    definition_calls.push_back(checked_u32(call_callees.size()));
    for (const auto& call : function.calls) {
      call_callees.push_back(symbol_numbers[call.callee]);
      call_lines.push_back(static_cast<std::int32_t>(call.line - function.line));
    }
  }
  definition_calls.push_back(checked_u32(call_callees.size()));

  std::string file_text;
  for (const auto& file : files) {
    file_text += file;
    file_text += '\0';
  }
  sections.add(SectionKind::files, files.size(), file_text);
  sections.add_names(SectionKind::symbols, SectionKind::symbol_blocks, symbols);
  sections.add(SectionKind::definition_symbols, definition_symbols);
  sections.add(SectionKind::definition_files, definition_files);
  sections.add(SectionKind::definition_lines, definition_lines);
  sections.add(SectionKind::definition_calls, definition_calls);
  sections.add(SectionKind::call_callees, call_callees);
  sections.add(SectionKind::call_lines, call_lines);
}

void add_ops(std::vector<IndexContents::Op> ops, Sections& sections) {
  std::sort(ops.begin(), ops.end(), [](const auto& left, const auto& right) {
    return std::tie(left.unambiguous_name, left.name) <
           std::tie(right.unambiguous_name, right.name);
  });
  std::vector<std::string> names;
  std::vector<std::uint32_t> lines;
  for (const auto& op : ops) {
    names.push_back(op.unambiguous_name + '\0' + op.name);
    lines.push_back(op.line);
  }
  sections.add_names(SectionKind::ops, SectionKind::op_blocks, names);
  sections.add(SectionKind::op_lines, lines);
}

}  // namespace

void write_index(IndexContents contents, const std::filesystem::path& path) {
  merge_repeated(contents.functions);
  Sections sections;
  std::string meta;
  for (const auto& [key, value] : contents.meta) {
    meta.append(key).push_back('\0');
    meta.append(value).push_back('\0');
  }
  sections.add(SectionKind::meta, contents.meta.size(), meta);
  add_functions(contents.functions, sections);
  add_ops(std::move(contents.ops), sections);
  sections.write(path);
}

}  // namespace optrace
