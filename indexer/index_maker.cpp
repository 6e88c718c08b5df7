#include "indexer/index_maker.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fnmatch.h>

#include "indexer/code_generation.h"
#include "indexer/file_text.h"
#include "indexer/index_catalogue.h"
#include "indexer/index_writer.h"
#include "indexer/op_catalogue.h"
#include "indexer/progress_reporter.h"
#include "indexer/python_installation.h"
#include "indexer/source_tree.h"
#include "platform/error.h"
#include "platform/installation.h"
#include "platform/interrupt.h"
#include "platform/output_file.h"
#include "platform/private_folder.h"

namespace optrace {
namespace {

constexpr std::array kGroups = {UnitGroup::aten, UnitGroup::cpu_kernels, UnitGroup::csrc,
                                UnitGroup::cuda};

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

// The wheel's commit, where the tree's catalogue of ops is the wheel's to the byte.
std::string git_version(const SourceTree& tree, const PythonInstallation& python) {
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
  progress.begin(fmt::format("Asking {} for its torch", options.python.string()));
  const PythonInstallation python = examine_python(options.python);
  check_versions(tree, python);

  const PrivateFolder work;
  const std::filesystem::path generated = work.path() / "generated";
  progress.begin("Generating the code that PyTorch's build generates");
  generate_code(tree, python, generated);
  const std::vector<SourceUnit> sources = wanted_units(tree, generated, options.only);

  const std::filesystem::path stand_ins = data_folder() / "stand_ins";
  std::vector<Unit> headers;
  std::vector<Unit> units;
  for (const UnitGroup group : kGroups) {
    if (std::none_of(sources.begin(), sources.end(),
                     [&](const SourceUnit& unit) { return unit.group == group; })) {
      continue;
    }
    const auto header = work.path() / (group_name(group) + ".h");
    const auto precompiled = work.path() / (group_name(group) + ".pch");
    std::ofstream(header) << precompiled_text(group);
    const auto arguments = compiler_arguments(group, tree, generated, python, stand_ins);
    headers.push_back({header.string(), "the headers of " + group_name(group), arguments, "",
                       precompiled.string()});
    for (const auto& source : sources) {
      if (source.group == group) {
        units.push_back({source.path.string(), source.name, arguments, precompiled.string(), ""});
      }
    }
  }

  const auto include = python.torch_folder / "include";
  const WorkerSetup setup{{{tree.folder.string(), ""},
                           {generated.string(), ""},
                           {(include / "ATen").string(), "build/aten/src/ATen"}},
                          {(tree.folder / "third_party").string()}};
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  Driver driver({.worker = library_folder() / "optrace-index-worker",
                 .jobs = options.jobs > 0 ? options.jobs : processors},
                setup);

  IndexContents contents;
  const auto sink = [&](IndexContents::Function function) {
    contents.functions.push_back(std::move(function));
  };
  const auto update = [&](std::size_t done, std::size_t total) { progress.update(done, total); };
  progress.begin(
      fmt::format("Reading the headers shared by all units ({} groups)", headers.size()));
  MadeIndex made;
  made.failed = driver.run(headers, sink, update);
  for (auto& unit : units) {
    std::error_code ignored;
    if (!std::filesystem::exists(unit.precompiled, ignored)) {
      unit.precompiled.clear();
    }
  }
  progress.begin(fmt::format("Indexing {} units", units.size()));
  for (auto& failed : driver.run(units, sink, update)) {
    made.failed.push_back(std::move(failed));
  }
  if (contents.functions.empty()) {
    throw Error(ExitStatus::failed,
                fmt::format("no unit could be indexed; the first failure: {}: {}",
                            made.failed.empty() ? "none" : made.failed.front().name,
                            made.failed.empty() ? "" : made.failed.front().reason),
                "Build or install optrace again, or free some memory.");
  }

  progress.begin("Writing the index");
  contents.ops = read_ops(tree.folder / "aten/src/ATen/native/native_functions.yaml");
  contents.meta = {{"torch_version", tree.version},
                   {"git_version", git_version(tree, python)},
                   {"units", std::to_string(units.size())},
                   {"units_failed", std::to_string(made.failed.size())},
                   {"partial", options.only.empty() ? "" : "yes"}};
  write_index(std::move(contents), path);
  made.path = path;
  made.torch_version = tree.version;
  made.units = units.size();
  return made;
}

}  // namespace optrace
