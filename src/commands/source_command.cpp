#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "indexer/making/index_maker.h"
#include "indexer/making/on_demand.h"
#include "indexer/making/project_maker.h"
#include "indexer/making/wheel_maker.h"
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
#include "src/commands/source_compare.h"
#include "src/commands/source_coverage.h"
#include "src/inputs/index_choice.h"
#include "src/inputs/python_choice.h"
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
    if (!python.empty()) {
      throw;
    }
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

void say_made(const MadeIndex& made) {
  const Index index = Index::open(made.path);
  const std::string_view project = index.note("project");
  std::string text = fmt::format(
      "{}: {} ({} of {} units, {} parsed now)\n{}\n",
      project.empty() ? fmt::format("torch {}", made.torch_version) : std::string(project),
      describe(index), made.units - made.failed.size(), made.units, made.parsed,
      made.path.string());
  for (const auto& failed : made.failed) {
    text += fmt::format("not indexed: {} ({})\n", printable(failed.name), printable(failed.reason));
  }
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
    say_made(make_wheel_index({.python = python,
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
    say_made(make_project_index({.folder = options.folder,
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
  say_made(options.on_demand ? prepare_on_demand(making) : make_index(making));
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
  say_made(make_index({.source = folder,
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
  if (const std::size_t units = number_of(index.note("units")); units > 0) {
    text += fmt::format("{} of {} units; ", units - number_of(index.note("units_failed")), units);
  }
  if (const Share kernels = kernel_coverage(index).available(); kernels.all > 0) {
    text += fmt::format("{} of {} kernels of native_functions.yaml; ", kernels.known, kernels.all);
  }
  if (!torch) {
    return text + "no torch to compare with";
  }
  return text + (is_exact_source(index, torch->version, torch->git_version)
                     ? fmt::format("exactly the source of your torch {}", torch->version)
                     : fmt::format("not the source of your torch {}", torch->version));
}

void list_sources(const std::string& python) {
  const auto torch = find_torch_quietly(python);
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

void add_only_option(Command& command, std::vector<std::string>& only) {
  command
      .add_option(
          "--only", only,
          "Index only the units whose path matches this pattern (* matches\nany characters), "
          "for development or for one op; may be repeated")
      .type_name("GLOB");
}

void add_jobs_option(Command& command, int& jobs) {
  command.add_option("--jobs", jobs, "Number of worker processes (default: one per processor)")
      .between(1, 256)
      .type_name("N");
}

}  // namespace

void add_source_command(Command& app) {
  Command& source = app.add_subcommand(
      "source",
      "Manage and compare the indexes of PyTorch's source: add, fetch, list, coverage,\ncompare");
  source.require_subcommands(1, 1);
  source.footer(
      "Examples:\n"
      "  optrace source list              all indexes, and their versions of torch\n"
      "  optrace source fetch             download and index the source of the installed torch\n"
      "  optrace source add ~/pytorch     index a checkout");

  const auto options = std::make_shared<AddOptions>();
  Command& add = source.add_subcommand(
      "add", "Index a PyTorch source tree or a torch wheel, so that C++ frames have file and line");
  add.footer(
      "Examples:\n"
      "  optrace source add ~/pytorch                     index a checkout\n"
      "  optrace source add --wheel                       index the installed torch, without "
      "source\n"
      "  optrace source add ~/pytorch --python .venv/bin/python\n"
      "  optrace source add ~/pytorch --only '*/Convolution.cpp' -o conv.index\n"
      "  optrace source add ~/my_extension --project      a C++ extension with ops of its own\n"
      "A source tree needs the torch wheel of the same version, whose generated headers are read.\n"
      "All need PyYAML.");
  const Option folder =
      add.add_positional("DIR", options->folder, "The top folder of a PyTorch source tree");
  const Option wheel = add.add_flag("--wheel", options->is_wheel,
                                    "Index the installed torch from its wheel alone, "
                                    "without a source\ntree: about a minute; some "
                                    "lines are approximate");
  wheel.excludes(folder);
  add.add_option("--python", options->python, "The Python that has torch, of the same version")
      .type_name("PATH");
  add.add_option("-o,--output", options->output,
                 "Write the index to this file instead of to the folder of\nindexes")
      .type_name("FILE");
  add_jobs_option(add, options->jobs);
  constexpr std::uint64_t kMinWorkerMemory = std::uint64_t{256} << 20;
  add.add_option(
         "--worker-memory", options->worker_memory,
         "Maximum memory of each worker (default: its share of\nthree quarters of the memory)")
      .size(kMinWorkerMemory)
      .type_name("SIZE");
  add_only_option(add, options->only);
  const Option project =
      add.add_flag("--project", options->is_project,
                   "DIR is a C++ extension that registers ops with TORCH_LIBRARY");
  project.excludes("--only").excludes(wheel);
  wheel.excludes("--only");
  add.add_flag("--on-demand", options->on_demand, "Index each name only when it is asked for")
      .excludes("--only")
      .excludes(project)
      .excludes(wheel);
  add.add_option("--name", options->project_name,
                 "The name of the extension (default: its folder's name)")
      .needs(project)
      .type_name("NAME");
  add.callback([options] { add_source(*options); });

  const auto fetch_options = std::make_shared<FetchCommandOptions>();
  Command& fetching = source.add_subcommand(
      "fetch", "Download the source of the installed torch with git, and index it");
  fetching.footer(
      "Examples:\n"
      "  optrace source fetch                             from PyTorch's repository\n"
      "  optrace source fetch --remote ~/mirror/pytorch.git --folder ~/pytorch-source\n"
      "Only the commit that torch was built from is fetched, without history, and only the "
      "folders\nthat contain its C++ code.");
  fetching.add_option("--python", fetch_options->python, "The Python that has torch")
      .type_name("PATH");
  fetching
      .add_option("--remote", fetch_options->remote, "The repository to fetch from: URL or folder")
      .type_name("URL")
      .show_default();
  fetching
      .add_option("--folder", fetch_options->folder,
                  "The folder for the source (default:\n~/.local/share/optrace/sources)")
      .type_name("DIR");
  add_only_option(fetching, fetch_options->only);
  add_jobs_option(fetching, fetch_options->jobs);
  fetching.callback([fetch_options] { fetch(*fetch_options); });

  Command& list = source.add_subcommand("list", "List the indexes");
  list.footer("Example:\n  optrace source list");
  const auto list_python = std::make_shared<std::string>();
  list.add_option("--python", *list_python, "The Python whose torch the indexes are compared with")
      .type_name("PATH");
  list.callback([list_python] { list_sources(*list_python); });

  add_source_coverage(source);
  add_source_compare(source);
}

}  // namespace optrace
