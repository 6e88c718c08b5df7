#include "indexer/wheel/wheel_headers.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "indexer/sources/source_tree.h"
#include "platform/files/installation.h"
#include "platform/files/whole_file.h"
#include "pytorch/source/source_files.h"

namespace optrace {
namespace {

/// Headers that are read in one go. What several groups of units include is read once.
struct HeaderUnit {
  const char* name;
  UnitGroup arguments;
  std::array<UnitGroup, 2> headers;
};
constexpr auto kHeaderUnits = std::to_array<HeaderUnit>(
    {{"csrc", UnitGroup::csrc_libraries, {UnitGroup::csrc, UnitGroup::csrc_libraries}},
     {"aten", UnitGroup::cpu_kernels, {UnitGroup::aten, UnitGroup::cpu_kernels}},
     {"cuda", UnitGroup::cuda, {UnitGroup::cuda, UnitGroup::cuda}}});

/// Returns the unit of kHeaderUnits that has the macros and folders that a header needs.
std::string_view unit_of(std::string_view header) {
  if (header.ends_with(".cuh") || header.find("/cuda/") != std::string_view::npos) return "cuda";
  return header.starts_with(kATen) ? "aten" : "csrc";
}

/// Returns a header's path below the include folder.
std::string installed_path(std::string_view name) {
  if (name.starts_with(kATen)) return "ATen/" + std::string(name.substr(kATen.size()));
  return std::string(name);
}

/// Returns true if the first line of an installed header was added by the build.
bool has_added_line(const std::filesystem::path& header) {
  std::string line;
  std::getline(std::ifstream(header), line);
  return line.starts_with("#if !defined(TORCH_STABLE_ONLY)");
}

/// Returns true for a header that PyTorch's generators write.
bool is_generated(const std::filesystem::path& header) {
  std::ifstream file(header);
  std::string line;
  constexpr int kLines = 12;
  for (int i = 0; i < kLines && std::getline(file, line); ++i)
    if (line.starts_with("// @generated")) return true;
  return false;
}

/// Corrects the paths and lines of the functions in installed headers.
class TreePlaces {
 public:
  explicit TreePlaces(std::filesystem::path include) : include_(std::move(include)) {}

  void correct(IndexContents::Function& function) {
    const Place& place = of(function.file);
    function.file = place.name;
    function.line -= place.added_lines;
    for (IndexContents::Call& call : function.calls) call.line -= place.added_lines;
  }

 private:
  struct Place {
    std::string name;
    std::uint32_t added_lines = 0;
  };

  const Place& of(const std::string& name) {
    const auto known = places_.find(name);
    if (known != places_.end()) return known->second;
    const std::filesystem::path installed = include_ / installed_path(name);
    Place place{name, has_added_line(installed) ? 1U : 0U};
    // A generated header is in the build folder.
    if (name.starts_with(kATen) && is_generated(installed))
      place.name = std::string(kBuiltATen) + name.substr(kATen.size());
    return places_.emplace(name, std::move(place)).first->second;
  }

  std::filesystem::path include_;
  std::map<std::string, Place> places_;
};

}  // namespace

WheelHeaders read_wheel_headers(const PythonInstallation& python, const WorkFolder& work,
                                const std::set<std::string>& also, const ParseOptions& options,
                                ProgressReporter& progress) {
  const std::filesystem::path include = python.torch_folder / "include";
  // There is neither a source tree nor generated code: all headers are the wheel's.
  const std::filesystem::path nowhere = work.path() / "no source tree";
  const SourceTree tree{nowhere, python.torch_version};
  UnitsToParse to_parse;
  to_parse.setup.folders = {
      {(include / "ATen").string(), std::string(kATen.substr(0, kATen.size() - 1))},
      {(include / "c10").string(), "c10"},
      {(include / "caffe2").string(), "caffe2"},
      {(include / "torch").string(), "torch"}};
  std::set<std::string> installed;
  for (const std::string& header : also) {
    std::error_code error;
    if (std::filesystem::is_regular_file(include / installed_path(header), error))
      installed.insert(header);
  }
  for (const HeaderUnit& unit : kHeaderUnits) {
    std::string text;
    for (const UnitGroup group : unit.headers) text += precompiled_text(group);
    for (const std::string& header : installed)
      if (unit_of(header) == unit.name)
        text += fmt::format("#include <{}>\n", installed_path(header));
    const std::filesystem::path file = work.path() / fmt::format("headers-{}.cpp", unit.name);
    write_file(file, text);
    to_parse.units.push_back(
        {file, fmt::format("headers of {}", unit.name), to_parse.groups.size()});
    to_parse.groups.push_back(
        {unit.name,
         compiler_arguments(unit.arguments, tree, nowhere, python, data_folder() / "stub_headers"),
         ""});
  }
  FileHashes hashes;
  ParsedUnits parsed = parse_units(to_parse, work, hashes, options, progress);
  WheelHeaders headers;
  headers.contents = merge_findings(parsed.units, {});
  headers.units = to_parse.units.size();
  headers.parsed = parsed.parsed_now;
  headers.failed = std::move(parsed.failed);
  TreePlaces places(include);
  for (IndexContents::Function& function : headers.contents.functions) {
    places.correct(function);
    headers.files.insert(function.file);
  }
  // A header without functions of its own was read too; its functions have moved.
  if (headers.failed.empty()) headers.files.merge(installed);
  return headers;
}

}  // namespace optrace
