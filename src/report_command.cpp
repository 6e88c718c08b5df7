#include "src/report_command.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "indexer/index_catalogue.h"
#include "platform/output_file.h"
#include "src/command.h"
#include "src/standard_output.h"

namespace optrace {
namespace {

// Checks a value without repeating the choices in the help's column of types.
CLI::Validator one_of(const std::set<std::string>& choices) {
  return CLI::IsMember(choices).description("");
}

// `version` or `git_version` of the torch that was traced; empty where the trace does not say.
std::string of_torch(const Trace& trace, const char* key) {
  if (!trace.meta.is_object()) return {};
  const nlohmann::json torch = trace.meta.value("torch", nlohmann::json());
  if (!torch.is_object()) return {};
  const nlohmann::json text = torch.value(key, nlohmann::json());
  return text.is_string() ? text.get<std::string>() : std::string();
}

}  // namespace

void add_output_options(CLI::App& app, OutputOptions& options) {
  app.add_option_function<std::string>(
         "--format",
         [&options](const std::string& name) {
           options.format = name == "json" ? ReportFormat::json : ReportFormat::tree;
         },
         "tree, for people, or json (schema optrace.report/1)")
      ->check(one_of({"tree", "json"}))
      ->type_name("FORMAT")
      ->default_str("tree");
  app.add_option("-o,--output", options.file, "Write to a file instead of standard output")
      ->type_name("FILE");
  app.add_flag("--all", options.all,
               "Show everything: wrapper templates, the interpreter's\nframes, plumbing");
  app.add_option_function<std::string>(
         "--colour,--color",
         [&options](const std::string& name) {
           options.colour = name == "always"  ? ColourChoice::always
                            : name == "never" ? ColourChoice::never
                                              : ColourChoice::automatic;
         },
         "auto, always or never")
      ->check(one_of({"auto", "always", "never"}))
      ->type_name("WHEN")
      ->default_str("auto");
}

void require_output(const OutputOptions& options) {
  if (options.file.empty())
    require_standard_output();
  else
    const OutputFile trial(options.file);
}

void write_report(const Trace& trace, const OutputOptions& options) {
  std::vector<std::string> warnings;
  const std::optional<Index> index =
      find_index(of_torch(trace, "version"), of_torch(trace, "git_version"), &warnings);
  for (const std::string& warning : warnings) fmt::print(stderr, "optrace: {}\n", warning);
  const Index* const source = index ? &*index : nullptr;
  if (options.file.empty()) {
    write_standard_output(render(trace, source, options, standard_output()));
    return;
  }
  OutputFile file(options.file);
  file.write(render(trace, source, options, {}));
  file.commit();
}

void add_report_command(CLI::App& app) {
  struct Options {
    std::string trace;
    OutputOptions output;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand("report", "Render a saved trace");
  command->footer(
      "Examples:\n"
      "  optrace conv2d --trace conv2d.trace       save a trace\n"
      "  optrace report conv2d.trace               show it\n"
      "  optrace report conv2d.trace --all         with everything that is folded away\n"
      "  optrace report conv2d.trace --format json -o conv2d.json");
  command->add_option("TRACE", options->trace, "A file that `optrace OP --trace FILE` wrote")
      ->required()
      ->type_name("");
  add_output_options(*command, options->output);
  command->callback([options] {
    require_output(options->output);
    write_report(read_trace(options->trace), options->output);
  });
}

}  // namespace optrace
