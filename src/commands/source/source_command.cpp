#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/core.h>

#include "indexer/builders/index_maker.h"
#include "indexer/builders/on_demand.h"
#include "indexer/builders/project_maker.h"
#include "indexer/builders/wheel_maker.h"
#include "indexer/sources/progress_reporter.h"
#include "indexer/sources/python_installation.h"
#include "indexer/sources/source_fetch.h"
#include "indexer/sources/work_folder.h"
#include "indexer/store/completeness.h"
#include "indexer/store/index_catalogue.h"
#include "indexer/store/source_link.h"
#include "platform/error.h"
#include "platform/process/interrupt.h"
#include "platform/text/printable_text.h"
#include "src/commands/command.h"
#include "src/inputs/python_choice.h"
#include "src/inputs/selected_index.h"
#include "src/options/common_options.h"
#include "src/terminal/standard_output.h"

namespace optrace {
namespace {

struct AddOptions {
  std::string folder;
  std::string python;
  std::string output;
  std::vector<std::string> only;
  int jobs = 0;
  std::uint64_t worker_memory = 0;
  bool is_project = false;
  bool on_demand = false;
  bool is_wheel = false;
  std::string project_name;
};

struct ListOptions {
  std::string python;
};

struct FetchCommandOptions {
  std::string python;
  std::string remote = kUpstream;
  std::string folder;
  std::vector<std::string> only;
  int jobs = 0;
};

std::optional<InstalledTorch> find_torch_quietly(const std::string& python) {
  try {
    return find_torch(choose_python(python).path);
  } catch (const Error&) {
    if (!python.empty()) throw;
    return std::nullopt;
  }
}

std::string describe(const Index& index) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(index.path(), ignored);
  return fmt::format("{} definitions, {} call sites, {} ops, {:.1f} MB", index.definition_count(),
                     index.call_site_count(), index.ops().size(),
                     static_cast<double>(size) / (1024.0 * 1024.0));
}

void print_made_index(const MadeIndex& made) {
  const Index index = Index::open(made.path);
  const std::string_view project = index.note("project");
  std::string text = fmt::format(
      "{}: {} ({} of {} units, {} parsed now)\n{}\n",
      project.empty() ? fmt::format("torch {}", made.torch_version) : std::string(project),
      describe(index), made.units - made.failed.size(), made.units, made.parsed,
      made.path.string());
  for (const auto& failed : made.failed)
    text += fmt::format("not indexed: {} ({})\n", printable(failed.name), printable(failed.reason));
  if (!made.differing.empty()) {
    text += fmt::format("{} {} not what the wheel was built from; lines in {} are approximate:\n",
                        made.differing.size(), made.differing.size() == 1 ? "file is" : "files are",
                        made.differing.size() == 1 ? "it" : "them");
    for (const std::string& file : made.differing) text += "  " + printable(file) + "\n";
  }
  write_standard_output(text);
}

void add_source(const AddOptions& options) {
  const auto python = choose_python(options.python).path;
  if (options.is_wheel) {
    print_made_index(make_wheel_index({.python = python,
                                       .output = options.output,
                                       .jobs = options.jobs,
                                       .worker_memory = options.worker_memory}));
    return;
  }
  if (options.folder.empty())
    throw Error(ExitStatus::usage, "neither a source tree nor --wheel is given",
                "`optrace source add DIR` indexes a PyTorch source tree, `optrace source add "
                "--wheel` the installed torch without its source.");
  if (options.is_project) {
    print_made_index(make_project_index({.folder = options.folder,
                                         .python = python,
                                         .name = options.project_name,
                                         .output = options.output,
                                         .jobs = options.jobs,
                                         .worker_memory = options.worker_memory}));
    return;
  }
  const MakeIndexOptions making{.source = options.folder,
                                .python = python,
                                .output = options.output,
                                .only = options.only,
                                .jobs = options.jobs,
                                .worker_memory = options.worker_memory};
  print_made_index(options.on_demand ? prepare_on_demand(making) : make_index(making));
}

void fetch(const FetchCommandOptions& options) {
  const auto python = choose_python(options.python).path;
  const PythonInstallation torch = examine_python(python);
  const std::filesystem::path folder = options.folder.empty()
                                           ? own_source_folder(torch.torch_version)
                                           : std::filesystem::path(options.folder);
  {
    const InterruptGuard guard;
    ProgressReporter progress;
    fetch_source({.remote = options.remote, .commit = torch.git_version, .folder = folder},
                 progress);
  }
  print_made_index(make_index({.source = folder,
                               .python = python,
                               .output = {},
                               .only = options.only,
                               .jobs = options.jobs}));
}

std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.0f} MB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

std::size_t number_of(std::string_view note) {
  std::size_t number = 0;
  std::from_chars(note.data(), note.data() + note.size(), number);
  return number;
}

// Returns how much of the source and of the ops' kernels the index covers, and whether it matches
// the torch.
std::string completeness(const Index& index, const std::optional<InstalledTorch>& torch) {
  std::string text;
  if (const std::size_t units = number_of(index.note("units")); units > 0)
    text += fmt::format("{} of {} units; ", units - number_of(index.note("units_failed")), units);
  if (const Share kernels = kernel_coverage(index).available(); kernels.all > 0)
    text += fmt::format("{} of {} kernels of native_functions.yaml; ", kernels.known, kernels.all);
  if (!torch) return text + "no torch to compare with";
  return text + (is_exact_source(index, torch->version, torch->git_version)
                     ? fmt::format("exactly the source of your torch {}", torch->version)
                     : fmt::format("not the source of your torch {}", torch->version));
}

void list_sources(const ListOptions& options) {
  const auto torch = find_torch_quietly(options.python);
  std::string text;
  const auto append = [&](const CataloguedIndex& candidate, const auto& describe_index) {
    try {
      const Index index = candidate.open();
      text += describe_index(index);
    } catch (const Error& error) {
      text += fmt::format("broken           {}\n{:<17}{}\n", error.what(), "", error.remedy());
    }
  };
  for (const auto& candidate : list_indexes()) {
    append(candidate, [&](const Index& index) {
      return fmt::format("torch {:<10} {}{}\n{:<17}{}\n{:<17}{}\n",
                         printable(index.torch_version()), describe(index),
                         !index.note("on_demand").empty() ? ", on demand"
                         : index.note("partial").empty()  ? ""
                                                          : ", some units only",
                         candidate.own ? "  made by you" : "  with optrace",
                         candidate.path.string(), "", completeness(index, torch));
    });
  }
  for (const auto& candidate : list_project_indexes()) {
    append(candidate, [&](const Index& index) {
      return fmt::format(
          "{:<16} {}\n{:<17}{}\n{:<17}an extension, built with torch {}; source in {}\n",
          printable(index.note("project")), describe(index), "  made by you",
          candidate.path.string(), "", printable(index.torch_version()),
          printable(index.note("source")));
    });
  }
  if (text.empty()) {
    throw Error(ExitStatus::usage, "there is no index, so C++ frames have no line",
                "`optrace source add DIR` creates one from a PyTorch source tree.");
  }
  remove_outdated_work();
  for (const KeptWork& work : list_kept_work()) {
    text += fmt::format(
        "kept work        {}; with it, only changed files of {} are indexed again\n{:<17}{}\n",
        megabytes(size_of(work)), printable(work.tree.string()), "  can be deleted",
        work.path.string());
  }
  write_standard_output(text);
}

OptionRow only_row(std::vector<std::string>& only) {
  return {"--only", "GLOB",
          "Index only the units whose path matches this pattern (* matches\nany characters), for "
          "development or for one op; may be repeated",
          &only};
}

OptionRow jobs_row(int& jobs) {
  return {"--jobs", "N", "Number of worker processes (default: one per processor)", &jobs,
          Between<int>(1, 256)};
}

OptionRows add_rows(AddOptions& options) {
  constexpr std::uint64_t kMinWorkerMemory = std::uint64_t{256} << 20;
  return {
      {"DIR", "", "The top folder of a PyTorch source tree", &options.folder},
      {"--wheel",
       "",
       "Index the installed torch from its wheel alone, without a source\ntree: about a minute; "
       "some lines are approximate",
       &options.is_wheel,
       {.excludes = {"DIR", "--only"}}},
      python_row(options.python, "The Python that has torch, of the same version"),
      {"-o,--output", "FILE", "Write the index to this file instead of to the folder of\nindexes",
       &options.output},
      jobs_row(options.jobs),
      {"--worker-memory", "SIZE",
       "Maximum memory of each worker (default: its share of\nthree quarters of the memory)",
       &options.worker_memory, ByteSize(kMinWorkerMemory)},
      only_row(options.only),
      {"--project",
       "",
       "DIR is a C++ extension that registers ops with TORCH_LIBRARY",
       &options.is_project,
       {.excludes = {"--only", "--wheel"}}},
      {"--on-demand",
       "",
       "Index each name only when it is asked for",
       &options.on_demand,
       {.excludes = {"--only", "--project", "--wheel"}}},
      {"--name",
       "NAME",
       "The name of the extension (default: its folder's name)",
       &options.project_name,
       {.needs = "--project"}},
  };
}

OptionRows fetch_rows(FetchCommandOptions& options) {
  return {
      python_row(options.python),
      {"--remote",
       "URL",
       "The repository to fetch from: URL or folder",
       &options.remote,
       {.usual = options.remote}},
      {"--folder", "DIR", "The folder for the source (default:\n~/.local/share/optrace/sources)",
       &options.folder},
      only_row(options.only),
      jobs_row(options.jobs),
  };
}

OptionRows list_rows(ListOptions& options) {
  return {python_row(options.python, "The Python whose torch the indexes are compared with")};
}

}  // namespace

CommandBody source_add_command() {
  return command_body<AddOptions>(add_rows, add_source);
}

CommandBody source_fetch_command() {
  return command_body<FetchCommandOptions>(fetch_rows, fetch);
}

CommandBody source_list_command() {
  return command_body<ListOptions>(list_rows, list_sources);
}

}  // namespace optrace
