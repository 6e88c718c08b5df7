#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "platform/process/interrupt.h"
#include "src/cache/cache_contents.h"
#include "src/cache/cache_output.h"
#include "src/commands/command.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"

namespace optrace {
namespace {

struct CacheOptions : AnswerOptions {
  std::string age;

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
  const std::vector<CachePart> parts = list_cache(options.older_than());
  output.write_whole(options.format == "json" ? to_json(parts) : to_text(parts, options.style()));
  output.commit();
}

void clean_all(const CacheOptions& options) {
  require_cache();
  CommandOutput output(options.file);
  std::vector<CleanedPart> parts;
  {
    const InterruptGuard guard;
    for (const CachePart& part : list_cache(options.older_than())) parts.push_back(clean(part));
  }
  output.write_whole(options.format == "json" ? to_json(parts) : to_text(parts));
  output.commit();
}

std::string problem_with_age(const std::string& text) {
  return parse_age(text)
             ? std::string()
             : fmt::format("{} is not an age: give a number and m, h, d or w, as in 30d", text);
}

OptionRows option_rows(CacheOptions& options, std::string what_is_old) {
  return {
      {"--older-than", "AGE", std::move(what_is_old), &options.age, problem_with_age},
      text_or_json_rows(options.format, "optrace.cache/1"),
      output_file_row(options.file),
      terminal_rows(options.terminal),
  };
}

OptionRows list_rows(CacheOptions& options) {
  return option_rows(options, "Only what did not change for this time: 12h, 30d, 2w");
}

OptionRows clean_rows(CacheOptions& options) {
  return option_rows(options, "Remove only what did not change for this time: 12h, 30d,\n2w");
}

}  // namespace

CommandBody cache_list_command() {
  return command_body<CacheOptions>(list_rows, list);
}

CommandBody cache_clean_command() {
  return command_body<CacheOptions>(clean_rows, clean_all);
}

}  // namespace optrace
