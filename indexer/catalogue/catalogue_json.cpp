#include "indexer/catalogue/catalogue_json.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "indexer/store/op_facts.h"
#include "platform/error.h"
#include "platform/text/json_reader.h"

namespace optrace {
namespace {

constexpr const char* kCatalogueRemedy =
    "Check that the source tree is complete and unchanged, and that Python works.";

// Returns `parse` of each line, which is a JSON object. Throws Error(failed) that names `what` and
// the line if a line is not an object, or if `parse` throws nlohmann's exception or Error(usage).
template <typename Row>
std::vector<Row> parse_lines(std::string_view json_lines, std::string_view what,
                             Row (*parse)(const nlohmann::json&)) {
  std::vector<Row> rows;
  for (std::size_t number = 1; !json_lines.empty(); ++number) {
    const std::size_t end = std::min(json_lines.find('\n'), json_lines.size());
    const auto fail = [&](const char* why) {
      throw Error(ExitStatus::failed,
                  fmt::format("{} can't be read: line {}: {}", what, number, why),
                  kCatalogueRemedy);
    };
    try {
      const auto line = read_json_or_throw(json_lines.substr(0, end));
      if (!line.is_object()) fail("it is not an object");
      rows.push_back(parse(line));
    } catch (const nlohmann::json::exception& error) {
      fail(error.what());
    } catch (const Error& error) {
      if (error.status() != ExitStatus::usage) throw;
      fail(error.what());
    }
    json_lines.remove_prefix(std::min(end + 1, json_lines.size()));
  }
  return rows;
}

// Returns a string that an index can store as a name. Throws Error(usage) if it is empty or
// contains a NUL.
std::string name_in(const nlohmann::json& line, const char* key) {
  auto name = line.at(key).get<std::string>();
  if (name.empty() || name.find('\0') != std::string::npos)
    throw Error(ExitStatus::usage, fmt::format("{} is not a name", key), kCatalogueRemedy);
  return name;
}

// Same for a string that may be empty.
std::string name_or_nothing_in(const nlohmann::json& line, const char* key) {
  const bool is_empty = line.at(key).get_ref<const std::string&>().empty();
  return is_empty ? std::string() : name_in(line, key);
}

IndexContents::Op parse_op(const nlohmann::json& line) {
  IndexContents::Op op;
  op.name = name_in(line, "name");
  op.unambiguous_name = name_in(line, "unambiguous_name");
  op.line = line.at("line").get<std::uint32_t>();
  // Parsed and written again, so that the file contains only fields that a reader uses.
  op.facts = to_json(parse_op_facts(line.at("facts").dump()));
  return op;
}

IndexContents::PythonName parse_python_name(const nlohmann::json& line) {
  IndexContents::PythonName name;
  name.name = name_in(line, "name");
  const std::string kind = name_in(line, "kind");
  if (kind.size() != 1 || std::string_view("mcfba").find(kind[0]) == std::string_view::npos)
    throw Error(ExitStatus::usage, fmt::format("{} is not a kind of Python name", kind), "");
  name.kind = kind[0];
  name.target = name_or_nothing_in(line, "target");
  name.file = name_or_nothing_in(line, "file");
  name.line = line.at("line").get<std::uint32_t>();
  return name;
}

}  // namespace

std::vector<IndexContents::Op> parse_ops(std::string_view json_lines) {
  return parse_lines(json_lines, "the catalogue of ops", parse_op);
}

std::vector<IndexContents::PythonName> parse_python_names(std::string_view json_lines) {
  return parse_lines(json_lines, "the list of Python names", parse_python_name);
}

}  // namespace optrace
