#include "src/options/common_options.h"

#include <cstddef>
#include <utility>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "present/wrapped_text.h"
#include "src/terminal/pager.h"

namespace optrace {

OptionRow memory_rows(MemoryOptions& options) {
  constexpr std::uint64_t kMin = std::uint64_t{1} << 20;
  constexpr std::uint64_t kMinTarget = std::uint64_t{4} << 20;
  return OptionRows{
      {"--memory", "SIZE",
       "Maximum memory of optrace for distinct paths and a timeline;\nfurther paths are counted in "
       "'...' frames (1G)",
       &options.command, ByteSize(kMin)},
      {"--target-memory", "SIZE", "Maximum memory of optrace in each traced process (64M)",
       &options.target, ByteSize(kMinTarget)},
  };
}

OptionRow python_row(std::string& python, std::string help) {
  return {"--python", "PATH", std::move(help), &python};
}

OptionRow probes_row(std::string& probes) {
  return {"--probes",
          "MODE",
          "How functions are patched: jump (fast) or int3",
          &probes,
          {.allowed = OneOf{{"jump", "int3"}}, .usual = probes}};
}

OptionRow format_row(OptionTarget target, const std::vector<FormatName>& formats,
                     std::string usual) {
  constexpr std::size_t kHelpColumns = 62;
  OneOf names;
  for (const FormatName& format : formats) names.values.emplace(format.name);
  return {"--format",
          "FORMAT",
          joined(wrapped(list_of(formats), kHelpColumns), "\n"),
          std::move(target),
          {.allowed = std::move(names), .usual = std::move(usual)}};
}

OptionRow format_row(std::string& format, const std::vector<FormatName>& formats) {
  return format_row(&format, formats, format);
}

OptionRow text_or_json_row(std::string& format, std::string_view schema) {
  const std::string help = fmt::format("schema {}", schema);
  return format_row(format, {{"text"}, {"json", help}});
}

OptionRow text_or_json_rows(std::string& format, std::string_view schema) {
  return OptionRows{text_or_json_row(format, schema),
                    {"--json",
                     "",
                     "Same as --format json",
                     [&format] { format = "json"; },
                     {.excludes = {"--format"}}}};
}

OptionRow no_source_row(bool& source) {
  return {"--no-source", "", "Leave the lines of source files out of the page (html)",
          [&source] { source = false; }};
}

OptionRow terminal_rows(TerminalOptions& options) {
  const auto take_colour = [&options](const std::string& name) {
    options.colour = name == "always"  ? ColourChoice::always
                     : name == "never" ? ColourChoice::never
                                       : ColourChoice::automatic;
  };
  const auto take_links = [&options](const std::string& format) {
    options.links = HyperlinkFormat(format);
  };
  return OptionRows{
      {"--colour,--color",
       "WHEN",
       "When to use colour: auto, always or never",
       take_colour,
       {.allowed = OneOf{{"auto", "always", "never"}}, .usual = "auto"}},
      {"--hyperlink-format",
       "FORMAT",
       "Links to files on a terminal: none, file, vscode, ..., or a URL\nwith {path}, {line} and "
       "{column}, as for ripgrep",
       take_links,
       {.usual = "default", .variable = "OPTRACE_HYPERLINK_FORMAT"}},
      {"--no-pager", "",
       "Don't show long output on a terminal with $OPTRACE_PAGER,\n$PAGER or less", disable_pager},
  };
}

}  // namespace optrace
