#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "platform/json_writer.h"
#include "platform/printable_text.h"
#include "report/check/check.h"
#include "report/model/layers.h"
#include "report/model/shortfalls.h"
#include "report/output/json.h"
#include "report/output/markup_text.h"

namespace optrace {
namespace {

using Json = nlohmann::json;
using Status = CheckResult::Status;

constexpr std::string_view name_of(Status status) {
  constexpr std::array<std::string_view, 3> kNames = {"passed", "failed", "error"};
  return kNames[static_cast<std::size_t>(status)];
}

std::size_t count(const std::vector<CheckResult>& results, Status status) {
  std::size_t number = 0;
  for (const CheckResult& result : results) number += result.status == status ? 1 : 0;
  return number;
}

/// Formats the result with the rule's reason and the remedy: `found: 14 (...)`.
std::string sentence(const CheckResult& result) {
  std::string text = "found: " + result.found;
  if (!result.rule.because.empty()) text += fmt::format(" ({})", result.rule.because);
  if (!result.remedy.empty()) text += ". " + result.remedy;
  return text;
}

std::string place_of(const CheckStep& step) {
  return step.file.empty() ? "" : fmt::format("  {}:{}", step.file, step.line);
}

/// Returns true for a line of the program itself, not of torch.
bool is_own_line(const CheckStep& step) {
  return step.layer == Layer::python && !step.file.empty() && step.line != 0 &&
         !step.file.starts_with("torch/") && !step.file.starts_with('<');
}

/// Selects the steps of a long path to show: the outermost line of the program's own code (such as
/// a test), the innermost one, and the end. Null stands for steps that are left out. JSON contains
/// all steps.
std::vector<const CheckStep*> shown_steps(const std::vector<CheckStep>& path) {
  constexpr std::size_t kMost = 12;
  const std::size_t end = path.size() > kMost ? path.size() - kMost : 0;
  std::vector<const CheckStep*> shown;
  std::size_t next = 0;  // The first step that is not yet decided.
  const auto show = [&](std::size_t step) {
    if (step < next || step >= path.size()) return;
    if (step > next) shown.push_back(nullptr);
    shown.push_back(&path[step]);
    next = step + 1;
  };
  const auto outermost = std::find_if(path.begin(), path.end(), is_own_line);
  const auto innermost = std::find_if(path.rbegin(), path.rend(), is_own_line);
  if (end > 0 && outermost != path.end()) {
    show(std::min(end, static_cast<std::size_t>(outermost - path.begin())));
    show(std::min(end, static_cast<std::size_t>(path.rend() - innermost) - 1));
  }
  for (std::size_t step = end; step < path.size(); ++step) show(step);
  return shown;
}

/// Formats the shown steps: `Conv2d.forward > aten::conv2d > ...`.
std::string way(const CheckResult& result) {
  std::string text;
  for (const CheckStep* const step : shown_steps(result.path))
    text += fmt::format("{}{}", text.empty() ? "" : " > ", step == nullptr ? "…" : step->name);
  return text;
}

/// Returns the places for tools that annotate files: the lines of the program's own Python code, or
/// else the line of the rule. Its file is empty if there is none.
std::vector<CheckPlace> annotated(const CheckResult& result) {
  if (!result.places.empty()) return result.places;
  const auto line = static_cast<std::uint32_t>(result.rule.line);
  return {{.function = {}, .file = result.rule.file, .line = line}};
}

/// Returns ` (3 times at this line)` if the rule found something at several lines, else an empty
/// string.
std::string share_of(const CheckPlace& place, const CheckResult& result) {
  return result.places.size() < 2
             ? ""
             : fmt::format(" ({} time{} at this line)", place.count, place.count == 1 ? "" : "s");
}

/// Returns `train.py:12 in step ×3` for each line, if there are several.
std::vector<std::string> lines_of_places(const CheckResult& result, std::size_t limit) {
  std::vector<std::string> lines;
  if (result.places.size() < 2) return lines;
  for (const CheckPlace& place : result.places) {
    if (lines.size() == limit) {
      lines.push_back(fmt::format("and {} more lines", result.places.size() - limit));
      break;
    }
    lines.push_back(
        fmt::format("{}:{}  in {}  ×{}", place.file, place.line, place.function, place.count));
  }
  return lines;
}

/// Returns a line (from 1) of a Python source file, if it can be read.
std::optional<std::string> source_line(const std::filesystem::path& file, std::uint32_t number) {
  constexpr std::uintmax_t kLargest = 16 << 20;  // Bytes.
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  if (std::filesystem::file_size(file, error) > kLargest || error) return std::nullopt;
  std::ifstream stream(file, std::ios::binary);
  std::string line;
  for (std::uint32_t i = 0; i < number; ++i)
    if (!std::getline(stream, line)) return std::nullopt;
  return line;
}

std::string dumped(const Json& json) {
  return write_json(json, 1) + "\n";
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

/// Escapes text for a workflow command of GitHub's runner (actions/toolkit,
/// packages/core/src/command.ts).
std::string command_text(std::string_view text, bool property) {
  std::string escaped;
  for (const char c : printable(text)) {
    const bool special = c == '%' || (property && (c == ':' || c == ','));
    escaped += special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return escaped;
}

}  // namespace

std::string check_to_text(const std::vector<CheckResult>& results, const TerminalStyle& style) {
  constexpr std::array<std::string_view, 3> kColours = {"32", "31", "33"};
  constexpr std::size_t kColumns = 8;
  std::string text;
  for (const CheckResult& result : results) {
    const std::string_view name = name_of(result.status);
    text += fmt::format("{}{}{}: {}\n",
                        style.paint(name, kColours[static_cast<std::size_t>(result.status)]),
                        std::string(kColumns - name.size(), ' '), printable(result.rule.name),
                        printable(result.found));
    const std::string indent(kColumns, ' ');
    if (result.rule.name != result.rule.text)
      text += fmt::format("{}expected: {}\n", indent, printable(result.rule.text));
    if (result.status == Status::passed) continue;
    if (!result.rule.because.empty())
      text += fmt::format("{}because {}\n", indent, printable(result.rule.because));
    if (!result.remedy.empty()) text += fmt::format("{}{}\n", indent, printable(result.remedy));
    for (const CheckStep* const step : shown_steps(result.path)) {
      const bool last = step == &result.path.back();
      text += indent +
              (step == nullptr ? "…"
                               : style.paint(last ? "at " : "under ", "2") +
                                     printable(step->name + place_of(*step))) +
              "\n";
    }
    constexpr std::size_t kMaxLines = 30;
    const std::vector<std::string> lines = lines_of_places(result, kMaxLines);
    if (!lines.empty()) text += indent + style.paint("by line:", "2") + "\n";
    for (const std::string& line : lines) text += fmt::format("{}  {}\n", indent, printable(line));
  }
  const std::size_t failed = count(results, Status::failed);
  const std::size_t errors = count(results, Status::error);
  text += fmt::format("\n{} of {} rule{} passed{}{}\n", count(results, Status::passed),
                      results.size(), results.size() == 1 ? "" : "s",
                      failed == 0 ? "" : fmt::format(", {} failed", failed),
                      errors == 0 ? "" : fmt::format(", {} could not be decided", errors));
  return text;
}

std::string check_to_json(const Report& report, const std::vector<CheckResult>& results) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json json = {{"schema", "optrace.check/1"},
               {"torch", report.torch.value("version", Json())},
               {"device", report.device},
               {"dry_run", report.dry_run},
               {"shortfalls", shortfalls_json(report.shortfalls)},
               {"passed", status_of(results) == Status::passed},
               {"rules", Json::array()}};
  for (const CheckResult& result : results) {
    Json path = Json::array();
    for (const CheckStep& step : result.path)
      path.push_back({{"layer", name_of(step.layer)},
                      {"name", step.name},
                      {"file", or_null(step.file)},
                      {"line", step.file.empty() ? Json() : Json(step.line)}});
    Json places = Json::array();
    for (const CheckPlace& place : result.places)
      places.push_back({{"function", place.function},
                        {"file", place.file},
                        {"line", place.line},
                        {"call_range", call_range_json(place.range)},
                        {"count", place.count}});
    json["rules"].push_back({{"name", result.rule.name},
                             {"expected", result.rule.text},
                             {"because", or_null(result.rule.because)},
                             {"file", or_null(result.rule.file)},
                             {"line", result.rule.file.empty() ? Json() : Json(result.rule.line)},
                             {"status", name_of(result.status)},
                             {"found", result.found},
                             {"remedy", or_null(result.remedy)},
                             {"path", std::move(path)},
                             {"places", std::move(places)}});
  }
  return dumped(json);
}

std::string check_to_junit(const std::vector<CheckResult>& results) {
  const std::string counts =
      fmt::format(R"(tests="{}" failures="{}" errors="{}")", results.size(),
                  count(results, Status::failed), count(results, Status::error));
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"optrace check\" {0}>\n"
      " <testsuite name=\"optrace check\" {0}>\n",
      counts);
  for (const CheckResult& result : results) {
    text += fmt::format(R"(  <testcase classname="optrace.check" name="{}")",
                        markup_text(result.rule.name));
    if (!result.rule.file.empty())
      text +=
          fmt::format(R"( file="{}" line="{}")", markup_text(result.rule.file), result.rule.line);
    if (result.status == Status::passed) {
      text += "/>\n";
      continue;
    }
    const std::string_view kind = result.status == Status::failed ? "failure" : "error";
    text +=
        fmt::format(">\n   <{} message=\"{}\" type=\"{}\">", kind, markup_text(result.found), kind);
    text += markup_text("expected: " + result.rule.text) + "\n" + markup_text(sentence(result));
    for (const CheckStep& step : result.path)
      text += "\n" + markup_text(step.name + place_of(step));
    for (const std::string& line : lines_of_places(result, result.places.size()))
      text += "\n" + markup_text(line);
    text += fmt::format("</{}>\n  </testcase>\n", kind);
  }
  return text + " </testsuite>\n</testsuites>\n";
}

std::string check_to_sarif(const std::vector<CheckResult>& results) {
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
      if (!result.path.empty()) message += "\n" + printable(way(result));
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
  return dumped({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                 {"version", "2.1.0"},
                 {"runs",
                  {{{"tool", {{"driver", {{"name", "optrace"}, {"rules", std::move(rules)}}}}},
                    {"columnKind", "utf16CodeUnits"},
                    {"results", std::move(found)}}}}});
}

std::string check_to_github(const std::vector<CheckResult>& results) {
  std::string text;
  for (const CheckResult& result : results) {
    if (result.status == Status::passed) continue;
    for (const CheckPlace& place : annotated(result)) {
      std::string properties = "title=" + command_text(result.rule.name, true);
      if (!place.file.empty()) {
        properties += ",file=" + command_text(place.file, true);
        if (place.line != 0) properties += fmt::format(",line={}", place.line);
        if (place.range)
          properties += fmt::format(",endLine={},col={},endColumn={}", place.range->end_line,
                                    place.range->column, place.range->end_column);
      }
      text += fmt::format("::error {}::{}", properties,
                          command_text(sentence(result) + share_of(place, result), false));
      if (!result.path.empty()) text += "%0A" + command_text(way(result), false);
      text += "\n";
    }
  }
  text += fmt::format("{} of {} rules passed\n", count(results, Status::passed), results.size());
  return text;
}

}  // namespace optrace
