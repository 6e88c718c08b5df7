#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "indexer/index_catalogue.h"
#include "indexer/index_maker.h"
#include "platform/error.h"
#include "src/command.h"
#include "src/python_choice.h"
#include "src/source_check.h"
#include "src/standard_output.h"

namespace optrace {
namespace {

struct AddOptions {
  std::string folder;
  std::string python;
  std::string output;
  std::vector<std::string> only;
  int jobs = 0;
};

std::string describe(const Index& index) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(index.path(), ignored);
  return fmt::format("{} definitions, {} call sites, {} ops, {:.1f} MB", index.definition_count(),
                     index.call_site_count(), index.ops().size(),
                     static_cast<double>(size) / (1024.0 * 1024.0));
}

void add_source(const AddOptions& options) {
  const MadeIndex made = make_index({.source = options.folder,
                                     .python = choose_python(options.python).path,
                                     .output = options.output,
                                     .only = options.only,
                                     .jobs = options.jobs});
  std::string text =
      fmt::format("torch {}: {} ({} of {} units, {} parsed now)\n{}\n", made.torch_version,
                  describe(Index::open(made.path)), made.units - made.failed.size(), made.units,
                  made.parsed, made.path.string());
  for (const auto& failed : made.failed) {
    text += fmt::format("not indexed: {} ({})\n", failed.name, failed.reason);
  }
  write_standard_output(text);
}

void list_sources() {
  std::string text;
  for (const auto& [path, own] : list_indexes()) {
    try {
      const Index index = Index::open(path);
      text += fmt::format("torch {:<10} {}{}\n{:<17}{}\n", index.torch_version(), describe(index),
                          index.note("partial").empty() ? "" : ", only some units",
                          own ? "  made by you" : "  with optrace", path.string());
    } catch (const Error& error) {
      text += fmt::format("broken           {}\n{:<17}{}\n", error.what(), "", error.remedy());
    }
  }
  if (text.empty()) {
    throw Error(ExitStatus::usage, "there is no index, so no frame of C++ has a line",
                "`optrace source add DIR` makes one from a PyTorch source tree.");
  }
  write_standard_output(text);
}

}  // namespace

void add_source_command(CLI::App& app) {
  CLI::App* const source =
      app.add_subcommand("source", "Which PyTorch source the lines come from: add, list");
  source->require_subcommand(1);
  source->footer(
      "Examples:\n"
      "  optrace source list              the indexes that there are, and for which torch\n"
      "  optrace source add ~/pytorch     make one from a checkout");

  const auto options = std::make_shared<AddOptions>();
  CLI::App* const add = source->add_subcommand(
      "add", "Index a PyTorch source tree, so that frames of C++ have file and line");
  add->footer(
      "Examples:\n"
      "  optrace source add ~/pytorch                     index a checkout\n"
      "  optrace source add ~/pytorch --python .venv/bin/python\n"
      "  optrace source add ~/pytorch --only '*/Convolution.cpp' -o conv.index\n"
      "Needs the torch wheel of the same version (its generated headers are read) and PyYAML.");
  add->add_option("DIR", options->folder, "The top folder of a PyTorch source tree")
      ->required()
      ->type_name("");
  add->add_option("--python", options->python, "The Python that has the torch of that version")
      ->type_name("PATH");
  add->add_option("-o,--output", options->output,
                  "Write the index there instead of to the folder of your indexes")
      ->type_name("FILE");
  add->add_option("--jobs", options->jobs, "Worker processes (default: one a processor)")
      ->check(CLI::Range(1, 256))
      ->type_name("N");
  add->add_option("--only", options->only,
                  "Index only the units whose path fits this shell pattern, for development or for "
                  "one op; can be repeated")
      ->type_name("GLOB");
  add->callback([options] { add_source(*options); });

  CLI::App* const list = source->add_subcommand("list", "The indexes that there are");
  list->footer("Example:\n  optrace source list");
  list->callback(list_sources);

  add_source_check(*source);
}

}  // namespace optrace
