#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "platform/text/json_writer.h"
#include "platform/text/printable_text.h"
#include "report/check/formats/check_messages.h"
#include "report/check/formats/check_output.h"
#include "report/check/names/source_file.h"

namespace optrace {
namespace {

using Json = nlohmann::json;
using Status = CheckResult::Status;

/// Returns a line (from 1) of a Python source file, if it can be read.
std::optional<std::string> source_line(const std::filesystem::path& file, std::uint32_t number) {
  std::ifstream stream = open_source(file);
  std::string line;
  for (std::uint32_t i = 0; i < number; ++i)
    if (!std::getline(stream, line)) return std::nullopt;
  return line;
}

/// Converts a path to an RFC 3986 URI: with the scheme `file` if it is absolute, else a relative
/// reference.
std::string uri_of(std::string_view path) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/!$&'()*+,;=@:";
  std::string uri = path.starts_with('/') ? "file://" : "";
  // A colon in the first segment would end a scheme.
  if (path.substr(0, path.find('/')).find(':') != std::string_view::npos) uri = "./";
  for (const char c : path)
    uri += kPlain.find(c) != std::string_view::npos
               ? std::string(1, c)
               : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return uri;
}

/// Converts a 1-based column in UTF-8 bytes to one in UTF-16 code units. Returns nothing if the
/// line is shorter.
std::optional<std::uint32_t> utf16_column(std::string_view line, std::uint32_t column) {
  if (column == 0 || column - 1 > line.size()) return std::nullopt;
  std::uint32_t units = 1;
  for (const char c : line.substr(0, column - 1)) {
    const auto byte = static_cast<unsigned char>(c);
    // Count the first byte of each character, twice for characters beyond the Basic Multilingual
    // Plane.
    if ((byte & 0xC0U) != 0x80U) units += byte >= 0xF0 ? 2 : 1;
  }
  return units;
}

/// Converts a place to a SARIF region. Columns require the source, which may be missing or changed.
Json region_of(const CheckPlace& place) {
  Json region = {{"startLine", place.line}};
  if (!place.range) return region;
  const std::optional<std::string> first = source_line(place.file, place.line);
  const std::optional<std::string> last = source_line(place.file, place.range->end_line);
  const auto start = first ? utf16_column(*first, place.range->column) : std::nullopt;
  const auto end = last ? utf16_column(*last, place.range->end_column) : std::nullopt;
  region["endLine"] = place.range->end_line;
  if (!start || !end) return region;
  region["startColumn"] = *start;
  region["endColumn"] = *end;
  return region;
}

}  // namespace

std::string to_sarif(const std::vector<CheckResult>& results) {
  Json rules = Json::array();
  Json found = Json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const CheckResult& result = results[i];
    const std::string id = fmt::format("rule{}", i + 1);
    rules.push_back({{"id", id},
                     {"name", printable(result.rule.name)},
                     {"shortDescription", {{"text", printable(result.rule.text)}}}});
    if (result.status == Status::passed) continue;
    for (const CheckPlace& place : annotated(result)) {
      std::string message =
          printable(result.rule.name + ": " + sentence(result) + share_of(place, result));
      if (!result.path.empty()) message += "\n" + printable(call_path(result));
      Json one = {{"ruleId", id},
                  {"ruleIndex", i},
                  {"level", "error"},
                  {"message", {{"text", std::move(message)}}},
                  {"locations", Json::array()}};
      if (!place.file.empty()) {
        Json physical = {{"artifactLocation", {{"uri", uri_of(place.file)}}}};
        if (place.line != 0) physical["region"] = region_of(place);
        one["locations"].push_back({{"physicalLocation", std::move(physical)}});
      }
      found.push_back(std::move(one));
    }
  }
  // In one nested list, clang-tidy would take half a minute for its moved values.
  Json run = {{"columnKind", "utf16CodeUnits"}, {"results", std::move(found)}};
  run["tool"]["driver"] = {{"name", "optrace"}, {"rules", std::move(rules)}};
  Json document = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                   {"version", "2.1.0"}};
  document["runs"] = Json::array({std::move(run)});
  return write_json(document, 1) + "\n";
}

}  // namespace optrace
