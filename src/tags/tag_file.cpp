#include "src/tags/tag_file.h"

#include <algorithm>
#include <fstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace optrace {
namespace {

constexpr std::string_view kProgramTag = "!_TAG_PROGRAM_NAME\toptrace\t";

bool is_plain(std::string_view text) {
  return !text.empty() &&
         std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

/// Returns a value with the characters escaped that would end it.
std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\') text += '\\';
    text += c;
  }
  return text;
}

std::string line_of(const Tag& tag) {
  std::string line = fmt::format("{}\t{}\t{};\"\t{}\tlanguage:{}", tag.name, tag.file.string(),
                                 tag.line, tag.kind, tag.kind == 'f' ? "C++" : "YAML");
  if (is_plain(tag.op)) line += "\top:" + escaped(tag.op);
  if (is_plain(tag.key)) line += "\tkey:" + escaped(tag.key);
  return line + '\n';
}

}  // namespace

std::string to_tag_file(const std::set<Tag>& tags, const std::string& version) {
  std::string text =
      "!_TAG_FILE_FORMAT\t2\t/extended format/\n"
      "!_TAG_FILE_SORTED\t1\t/0=unsorted, 1=sorted, 2=foldcase/\n";
  text += fmt::format("{}//\n!_TAG_PROGRAM_VERSION\t{}\t//\n", kProgramTag, version);
  for (const Tag& tag : tags)
    if (is_plain(tag.name) && is_plain(tag.file.native())) text += line_of(tag);
  return text;
}

bool is_own_tag_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return true;
  std::ifstream stream(file);
  constexpr int kHeaderLines = 10;
  std::string line;
  for (int i = 0; i < kHeaderLines && std::getline(stream, line); ++i)
    if (line.starts_with(kProgramTag)) return true;
  return false;
}

}  // namespace optrace
