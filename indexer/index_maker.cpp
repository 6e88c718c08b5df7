#include "indexer/index_maker.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fnmatch.h>

#include "indexer/code_generation.h"
#include "indexer/file_hashes.h"
#include "indexer/file_text.h"
#include "indexer/index_catalogue.h"
#include "indexer/index_writer.h"
#include "indexer/op_catalogue.h"
#include "indexer/progress_reporter.h"
#include "indexer/python_catalogue.h"
#include "indexer/python_installation.h"
#include "indexer/source_fetch.h"
#include "indexer/source_tree.h"
#include "indexer/unit_parser.h"
#include "indexer/work_folder.h"
#include "platform/error.h"
#include "platform/installation.h"
#include "platform/interrupt.h"
#include "platform/output_file.h"

namespace optrace {
namespace {

void check_versions(const SourceTree& tree, const PythonInstallation& python) {
  if (python.torch_version != tree.version) {
    throw Error(
        ExitStatus::usage,
        fmt::format("the source in {} is of PyTorch {}, the torch of {} is {}",
                    tree.folder.string(), tree.version, python.python.string(),
                    python.torch_version),
        fmt::format("The wheel's headers are read with the source: name a Python that has torch {} "
                    "with --python, or give the source of {}.",
                    tree.version, python.torch_version));
  }
}

// The wheel's commit, where the tree is a checkout of it, or no checkout and its catalogue of ops
// is the wheel's to the byte.
std::string git_version(const SourceTree& tree, const PythonInstallation& python) {
  if (const std::string commit = checked_out_commit(tree.folder); !commit.empty()) {
    return commit == python.git_version ? commit : "";
  }
  const std::string shipped = file_text(python.torch_folder.parent_path() /
                                        "torchgen/packaged/ATen/native/native_functions.yaml");
  const std::string here = file_text(tree.folder / "aten/src/ATen/native/native_functions.yaml");
  return !shipped.empty() && shipped == here ? python.git_version : "";
}

bool is_wanted(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& pattern) {
           return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
         });
}

std::vector<SourceUnit> wanted_units(const SourceTree& tree, const std::filesystem::path& generated,
                                     const std::vector<std::string>& only) {
  std::vector<SourceUnit> units = list_units(tree.folder);
  for (auto& unit : list_units(generated)) {
    units.push_back(std::move(unit));
  }
  std::erase_if(units, [&](const SourceUnit& unit) { return !is_wanted(unit.name, only); });
  if (units.empty()) {
    throw Error(ExitStatus::usage, "no unit of the source tree fits --only",
                "Patterns are those of a shell and name files from the top of the tree: "
                "--only 'aten/src/ATen/native/Conv*.cpp'.");
  }
  // The large ones first, so that no worker sits alone over one at the end.
  std::stable_sort(units.begin(), units.end(), [](const auto& left, const auto& right) {
    return std::filesystem::file_size(left.path) > std::filesystem::file_size(right.path);
  });
  return units;
}

}  // namespace

namespace {

// Everything that the generators read.
std::uint64_t generator_inputs(const SourceTree& tree, FileHashes& hashes) {
  Digest digest;
  for (const char* part :
       {"torchgen", "tools", "aten/src/ATen/native/native_functions.yaml",
        "aten/src/ATen/native/tags.yaml", "aten/src/ATen/native/ts_native_functions.yaml",
        "aten/src/ATen/templates", "torch/csrc/lazy", "torch/csrc/inductor/aoti_torch/generated",
        "version.txt"}) {
    digest.add(part).add(hashes.of_all(tree.folder / part));
  }
  return digest.value();
}

UnitsToParse units_to_parse(const SourceTree& tree, const std::filesystem::path& generated,
                            const PythonInstallation& python,
                            const std::vector<SourceUnit>& sources) {
  UnitsToParse wanted;
  for (const UnitGroup group : kUnitGroups) {
    if (std::none_of(sources.begin(), sources.end(),
                     [&](const SourceUnit& unit) { return unit.group == group; })) {
      continue;
    }
    for (const auto& source : sources) {
      if (source.group == group) {
        wanted.units.push_back({source.path, source.name, wanted.groups.size()});
      }
    }
    wanted.groups.push_back(
        {group_name(group),
         compiler_arguments(group, tree, generated, python, data_folder() / "stand_ins"),
         precompiled_text(group)});
  }
  const auto include = python.torch_folder / "include";
  wanted.setup = {{{tree.folder.string(), ""},
                   {generated.string(), ""},
                   {(include / "ATen").string(), "build/aten/src/ATen"}},
                  {(tree.folder / "third_party").string()}};
  return wanted;
}

}  // namespace

MadeIndex make_index(const MakeIndexOptions& options) {
  const SourceTree tree = open_source_tree(options.source);
  const std::filesystem::path path =
      options.output.empty() ? own_index_path(tree.version) : options.output;
  // Before the work rather than after it.
  {
    const OutputFile trial(path);
  }

  const InterruptGuard guard;
  ProgressReporter progress;
  const PythonInstallation python = examine_python(options.python);
  check_versions(tree, python);

  const WorkFolder work(tree.folder, python.torch_folder);
  FileHashes inputs;
  const std::uint64_t input = generator_inputs(tree, inputs);
  work.make_once("generated", input, [&](const std::filesystem::path& folder) {
    progress.begin("Generating the code that PyTorch's build generates");
    generate_code(tree, python, folder);
  });
  const auto ops_program = data_folder() / "catalogue/ops.py";
  work.make_once("ops", Digest().add(input).add(inputs.of_all(ops_program)).value(),
                 [&](const std::filesystem::path& file) {
                   progress.begin("Reading what native_functions.yaml and derivatives.yaml say");
                   write_ops(tree.folder, python.python, file);
                 });
  const auto names_program = data_folder() / "catalogue/python_names.py";
  work.make_once("python_names",
                 Digest()
                     .add(inputs.of_all(names_program))
                     .add(inputs.of(python.torch_folder / "version.py"))
                     .value(),
                 [&](const std::filesystem::path& file) {
                   progress.begin("Listing the names of the Python API");
                   write_python_names(python.python, file);
                 });
  const std::filesystem::path generated = work.path() / "generated";
  const std::vector<SourceUnit> sources = wanted_units(tree, generated, options.only);
  FileHashes hashes;
  ParsedUnits parsed =
      parse_units(units_to_parse(tree, generated, python, sources), work, hashes,
                  {.jobs = options.jobs, .worker_memory = options.worker_memory}, progress);

  progress.begin("Writing the index");
  IndexContents contents = merge_findings(parsed.units);
  if (contents.functions.empty()) {
    throw Error(ExitStatus::failed,
                fmt::format("no unit could be indexed; the first failure: {}: {}",
                            parsed.failed.empty() ? "none" : parsed.failed.front().name,
                            parsed.failed.empty() ? "" : parsed.failed.front().reason),
                "Build or install optrace again, or free some memory.");
  }
  contents.ops = parse_ops(file_text(work.path() / "ops"));
  contents.python_names = parse_python_names(file_text(work.path() / "python_names"));
  bind_python_names(contents, {tree.folder, generated});
  contents.meta = {{"torch_version", tree.version},
                   {"git_version", git_version(tree, python)},
                   {"units", std::to_string(sources.size())},
                   {"units_failed", std::to_string(parsed.failed.size())},
                   {"partial", options.only.empty() ? "" : "yes"}};
  write_index(std::move(contents), path);
  return {.path = path,
          .torch_version = tree.version,
          .units = sources.size(),
          .parsed = parsed.parsed_now,
          .failed = std::move(parsed.failed)};
}

}  // namespace optrace
