#include "indexer/builders/tree_work.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "indexer/catalogue/catalogue_json.h"
#include "indexer/catalogue/code_generation.h"
#include "indexer/catalogue/op_catalogue.h"
#include "indexer/catalogue/python_catalogue.h"
#include "indexer/sources/source_fetch.h"
#include "indexer/store/index_writer.h"
#include "indexer/wheel/source_match.h"
#include "indexer/wheel/wheel_code.h"
#include "platform/error.h"
#include "platform/files/installation.h"
#include "platform/files/whole_file.h"
#include "pytorch/source/source_files.h"

namespace optrace {
namespace {

void check_versions(const SourceTree& tree, const PythonInstallation& python) {
  if (python.torch_version != tree.version) {
    throw Error(ExitStatus::usage,
                fmt::format("the source in {} is PyTorch {}, but the torch of {} is {}",
                            tree.folder.string(), tree.version, python.python.string(),
                            python.torch_version),
                fmt::format("The wheel's headers are read together with the source: name a Python "
                            "that has torch {} with --python, or give the source of {}.",
                            tree.version, python.torch_version));
  }
}

// Returns the wheel's commit if the tree is a checkout of it, or if it is not a checkout and its
// native_functions.yaml is identical to the wheel's.
std::string git_version(const SourceTree& tree, const PythonInstallation& python) {
  if (const std::string commit = checked_out_commit(tree.folder); !commit.empty())
    return commit == python.git_version ? commit : "";
  const std::string shipped =
      read_file(python.torch_folder.parent_path() / kPackagedOpsFile).value_or("");
  const std::string here = read_file(tree.folder / kOpsFile).value_or("");
  return !shipped.empty() && shipped == here ? python.git_version : "";
}

// Returns a digest of all files that the generators read.
std::uint64_t generator_inputs(const SourceTree& tree, FileHashes& hashes) {
  Digest digest;
  constexpr auto kParts = std::to_array<std::string_view>(
      {"torchgen", "tools", kOpsFile, kTagsFile, "aten/src/ATen/native/ts_native_functions.yaml",
       "aten/src/ATen/templates", "torch/csrc/lazy", "torch/csrc/inductor/aoti_torch/generated",
       "version.txt"});
  for (const std::string_view part : kParts) {
    digest.add(part).add(hashes.of_all(tree.folder / part));
  }
  return digest.value();
}

PythonInstallation fitting_python(const SourceTree& tree, const std::filesystem::path& python) {
  PythonInstallation found = examine_python(python);
  require_yaml(found);
  check_versions(tree, found);
  return found;
}

// Makes the lines in some files approximate.
void disclaim_lines(IndexContents& contents, const std::set<std::string>& files) {
  for (IndexContents::Function& function : contents.functions) {
    if (!files.contains(function.file)) continue;
    function.approximate = LineInterval{};
    for (IndexContents::Call& call : function.calls) call.approximate = LineInterval{};
  }
  for (IndexContents::Registration& registration : contents.registrations)
    if (files.contains(registration.file)) registration.approximate = LineInterval{};
}

}  // namespace

TreeWork::TreeWork(SourceTree tree, const std::filesystem::path& python, ProgressReporter& progress)
    : tree_(std::move(tree)),
      python_(fitting_python(tree_, python)),
      progress_(progress),
      work_(tree_.folder, python_.torch_folder) {}

void TreeWork::prepare() {
  FileHashes hashes;
  const std::uint64_t input = generator_inputs(tree_, hashes);
  work_.make_once("generated", input, [&](const std::filesystem::path& folder) {
    progress_.begin("Generating the code of PyTorch's build");
    generate_code(tree_, python_, folder);
  });
  const auto ops_program = data_folder() / "catalogue/ops.py";
  work_.make_once("ops", Digest().add(input).add(hashes.of_all(ops_program)).value(),
                  [&](const std::filesystem::path& file) {
                    progress_.begin("Reading native_functions.yaml and derivatives.yaml");
                    write_ops(tree_.folder, python_.python, file);
                  });
  const auto names_program = data_folder() / "catalogue/python_names.py";
  work_.make_once("python_names",
                  Digest()
                      .add(hashes.of_all(names_program))
                      .add(hashes.of(python_.torch_folder / "version.py"))
                      .value(),
                  [&](const std::filesystem::path& file) {
                    progress_.begin("Listing the names of the Python API");
                    write_python_names(python_.python, file);
                  });
  ops_ = parse_ops(read_file(work_.path() / "ops").value_or(""));
  hashes_ = FileHashes();
}

std::vector<SourceUnit> TreeWork::units() const {
  std::vector<SourceUnit> units = list_units(tree_.folder);
  for (auto& unit : list_units(generated())) units.push_back(std::move(unit));
  return units;
}

UnitsToParse TreeWork::units_to_parse(const std::vector<SourceUnit>& sources) const {
  UnitsToParse to_parse;
  for (const UnitGroup group : kUnitGroups) {
    if (std::ranges::none_of(sources, [&](const SourceUnit& unit) { return unit.group == group; }))
      continue;
    for (const auto& source : sources)
      if (source.group == group)
        to_parse.units.push_back({source.path, source.name, to_parse.groups.size()});
    to_parse.groups.push_back(
        {group_name(group),
         compiler_arguments(group, tree_, generated(), python_, data_folder() / "stub_headers"),
         precompiled_text(group)});
  }
  const auto include = python_.torch_folder / "include";
  to_parse.setup.folders = {{tree_.folder.string(), ""},
                            {generated().string(), ""},
                            {(include / "ATen").string(), "build/aten/src/ATen"}};
  to_parse.setup.left_out = {(tree_.folder / "third_party").string()};
  return to_parse;
}

ParsedUnits TreeWork::parse(const std::vector<SourceUnit>& units, const ParseOptions& options) {
  return parse_units(units_to_parse(units), work_, hashes_, options, progress_);
}

std::set<std::string> TreeWork::compare_with_wheel(IndexContents& contents) const {
  progress_.begin("Comparing the source with the code of the wheel");
  const WheelCode code = WheelCode::read(python_.torch_folder);
  std::set<std::string> differing = differing_files(tree_.folder, code.anchors());
  disclaim_lines(contents, differing);
  contents.anchors = code.places();
  std::erase_if(contents.anchors,
                [&](const IndexedAnchor& anchor) { return differing.contains(anchor.file); });
  return differing;
}

void TreeWork::write(IndexContents contents, const std::map<std::string, std::string>& notes,
                     const std::filesystem::path& path) const {
  progress_.begin("Writing the index");
  contents.ops = ops_;
  contents.python_names = parse_python_names(read_file(work_.path() / "python_names").value_or(""));
  bind_python_names(contents, {tree_.folder, generated()});
  contents.meta = {{"torch_version", tree_.version}, {"git_version", git_version(tree_, python_)}};
  contents.meta.insert(notes.begin(), notes.end());
  write_index(std::move(contents), path);
}

}  // namespace optrace
