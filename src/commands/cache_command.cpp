#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "platform/process/interrupt.h"
#include "src/cache/cache_contents.h"
#include "src/cache/cache_output.h"
#include "src/commands/command.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"
#include "src/terminal/terminal.h"

namespace optrace {
namespace {

struct CacheOptions {
  std::string format = "text";
  std::string file;
  std::string age;
  TerminalOptions terminal;

  std::optional<std::chrono::seconds> older_than() const {
    return age.empty() ? std::nullopt : parse_age(age);
  }
};

void require_cache() {
  if (const std::string problem = cache_problem(); cache_folder().empty())
    throw Error(ExitStatus::usage, "there is no cache", problem);
}

void list(const CacheOptions& options) {
  require_cache();
  CommandOutput output(options.file);
  const InterruptGuard guard;
  const std::vector<CachePart> parts = list_cache(options.older_than());
  const OutputTarget target = options.file.empty() ? standard_output() : OutputTarget{};
  output.write_whole(options.format == "json"
                         ? to_json(parts)
                         : to_text(parts, style_for(options.terminal, target)));
  output.commit();
}

void clean_all(const CacheOptions& options) {
  require_cache();
  CommandOutput output(options.file);
  const InterruptGuard guard;
  std::vector<CleanedPart> parts;
  for (const CachePart& part : list_cache(options.older_than())) parts.push_back(clean(part));
  output.write_whole(options.format == "json" ? to_json(parts) : to_text(parts));
  output.commit();
}

std::string problem_with_age(const std::string& text) {
  return parse_age(text)
             ? std::string()
             : fmt::format("{} is not an age: give a number and m, h, d or w, as in 30d", text);
}

std::shared_ptr<CacheOptions> add_options(Command& command, const char* what) {
  auto options = std::make_shared<CacheOptions>();
  command.add_option("--older-than", options->age, what).check(problem_with_age).type_name("AGE");
  add_text_or_json_options(command, options->format, "optrace.cache/1");
  add_output_file_option(command, options->file);
  add_terminal_options(command, options->terminal);
  return options;
}

}  // namespace

void add_cache_command(Command& app) {
  Command& cache = app.add_subcommand("cache", "Show what optrace keeps: list, clean");
  cache.require_subcommands(1, 1);
  cache.footer(
      "Examples:\n"
      "  optrace cache list                       what is kept, and its size\n"
      "  optrace cache clean --older-than 30d     remove what has not changed for 30 days\n"
      "Everything in the cache is made again when it is needed, except the traces of the last\n"
      "programs. Indexes are no part of it: `optrace source list` shows them.");
  Command& listing = cache.add_subcommand("list", "List what is kept, with its size");
  listing.footer("Example:\n  optrace cache list --older-than 2w");
  const auto listed = add_options(listing, "Only what did not change for this time: 12h, 30d, 2w");
  listing.callback([listed] { list(*listed); });

  Command& cleaning = cache.add_subcommand("clean", "Remove it, and say what was freed");
  cleaning.footer(
      "Examples:\n"
      "  optrace cache clean\n"
      "  optrace cache clean --older-than 30d\n"
      "What another optrace is using stays. Links are not followed, and files that optrace did "
      "not\n"
      "make are left alone.");
  const auto cleaned =
      add_options(cleaning, "Remove only what did not change for this time: 12h, 30d,\n2w");
  cleaning.callback([cleaned] { clean_all(*cleaned); });
}

}  // namespace optrace
