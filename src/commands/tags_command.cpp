#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>

#include "indexer/sources/source_tree.h"
#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/files/whole_file.h"
#include "platform/process/interrupt.h"
#include "platform/text/printable_text.h"
#include "present/progress_display.h"
#include "present/readable_numbers.h"
#include "src/commands/command.h"
#include "src/inputs/index_choice.h"
#include "src/inputs/local_sources.h"
#include "src/tags/index_tags.h"
#include "src/tags/tag_file.h"
#include "src/terminal/command_output.h"
#include "src/terminal/standard_output.h"

namespace optrace {
namespace {

constexpr const char* kUsualFile = "tags";

struct TagsOptions {
  std::string file;
  std::string python;
  std::string source;
};

LocalSources sources_for(const IndexChoice& choice, const std::string& source) {
  if (source.empty()) return LocalSources(choice);
  const SourceTree tree = open_source_tree(source);
  if (tree.version != choice.index.torch_version()) {
    write_message(fmt::format("{} is the source of PyTorch {}, and the lines are those of {}",
                              source, tree.version, choice.index.torch_version()));
  }
  LocalSources sources(choice);
  sources.add_tree(tree.folder);
  return sources;
}

void write_tags(const TagsOptions& options, const std::string& version) {
  const std::filesystem::path file = options.file.empty() ? kUsualFile : options.file;
  if (options.file.empty() && !is_own_tag_file(file)) {
    throw Error(ExitStatus::usage,
                fmt::format("there is a file {} here that optrace did not write", kUsualFile),
                "Name another file with -o; editors can use several.");
  }
  const OutputFile trial(file);
  const InterruptGuard guard;
  IndexChoice choice = choose_index(options.python);
  say_notices(choice);
  const LocalSources sources = sources_for(choice, options.source);
  std::set<Tag> tags;
  {
    ProgressDisplay display;
    tags = tags_of(choice, sources, [&](std::string_view step) { display.show_step(step); });
  }
  const auto functions = std::ranges::count(tags, 'f', &Tag::kind);
  write_file(file, to_tag_file(tags, version));
  write_standard_output(
      fmt::format("{}: {}\n", printable(file.string()), readable_count(tags.size(), "tag")));
  if (functions == 0) {
    write_message(
        "there is no C++ source of this PyTorch here, so tags lead to "
        "native_functions.yaml",
        "`optrace source fetch` downloads the source; --source DIR names a checkout.");
  }
}

}  // namespace

void add_tags_command(Command& app) {
  const auto options = std::make_shared<TagsOptions>();
  Command& command = app.add_subcommand(
      "tags", "Write a tags file for editors: ops and builtins to their C++ definitions");
  command.footer(
      "Examples:\n"
      "  optrace tags                             ./tags; in vim, `:tag matmul` goes there\n"
      "  optrace tags -o ~/torch.tags             in vim: set tags+=~/torch.tags\n"
      "  optrace tags --source ~/pytorch          with the C++ files of a checkout\n"
      "Names: matmul, torch.matmul, aten::matmul. Only places on this machine have tags: those in "
      "a\n"
      "source tree that was indexed or named, and in the yaml files of the wheel.");
  command.add_option("--python", options->python, "The Python that has torch").type_name("PATH");
  command
      .add_option("--source", options->source,
                  "A PyTorch source tree, besides those that were indexed")
      .type_name("DIR");
  command.add_option("-o,--output", options->file, "Write to this file instead of ./tags")
      .type_name("FILE");
  command.callback([&app, options] {
    const std::string version = app.version();  // `optrace 0.1.0`
    write_tags(*options, version.substr(version.find(' ') + 1));
  });
}

}  // namespace optrace
