#include "src/options/common_options.h"

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "src/terminal/pager.h"

namespace optrace {

void add_memory_options(Command& command, MemoryOptions& options) {
  constexpr std::uint64_t kMin = std::uint64_t{1} << 20;
  constexpr std::uint64_t kMinTarget = std::uint64_t{4} << 20;
  command
      .add_option("--memory", options.command,
                  "Maximum memory of optrace for distinct paths and a timeline;\nfurther paths are "
                  "counted in '...' frames (1G)")
      .size(kMin)
      .type_name("SIZE");
  command
      .add_option("--target-memory", options.target,
                  "Maximum memory of optrace in each traced process (64M)")
      .size(kMinTarget)
      .type_name("SIZE");
}

void add_text_or_json_options(Command& command, std::string& format, const char* schema) {
  const Option option =
      command.add_option("--format", format, fmt::format("text or json (schema {})", schema))
          .one_of({"text", "json"})
          .type_name("FORMAT")
          .show_default();
  command.add_flag(
             "--json", [&format] { format = "json"; }, "Same as --format json")
      .excludes(option);
}

void add_output_file_option(Command& command, std::string& file) {
  command.add_option("-o,--output", file, "Write to a file instead of standard output")
      .type_name("FILE");
}

void add_terminal_options(Command& command, TerminalOptions& options) {
  command
      .add_option(
          "--colour,--color",
          [&options](const std::string& name) {
            options.colour = name == "always"  ? ColourChoice::always
                             : name == "never" ? ColourChoice::never
                                               : ColourChoice::automatic;
          },
          "When to use colour: auto, always or never")
      .one_of({"auto", "always", "never"})
      .type_name("WHEN")
      .default_text("auto");
  command
      .add_option(
          "--hyperlink-format",
          [&options](const std::string& format) { options.links = HyperlinkFormat(format); },
          "Links to files on a terminal: none, file, vscode, ..., or a URL\nwith {path}, {line} "
          "and {column}, as for ripgrep")
      .environment("OPTRACE_HYPERLINK_FORMAT")
      .type_name("FORMAT")
      .default_text("default");
  command.add_flag("--no-pager", disable_pager,
                   "Don't show long output on a terminal with $OPTRACE_PAGER,\n$PAGER or "
                   "less");
}

}  // namespace optrace
