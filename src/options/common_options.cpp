#include "src/options/common_options.h"

#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/terminal/pager.h"

namespace optrace {

// The name of one_of()'s validators starts with this; the choices follow, with a space before each.
// CLI11 shows no names of validators.
constexpr std::string_view kOneOf = "one of";

CLI::Validator one_of(const std::set<std::string>& choices) {
  return CLI::IsMember(choices).description("").name(
      fmt::format("{} {}", kOneOf, fmt::join(choices, " ")));
}

std::vector<std::string> choices_of(CLI::Option& option) {
  for (int i = 0;; ++i) {
    const CLI::Validator* validator = nullptr;
    try {
      validator = option.get_validator(i);
    } catch (const CLI::OptionNotFound&) {
      return {};
    }
    if (validator->get_name().starts_with(kOneOf))
      return CLI::detail::split(validator->get_name().substr(kOneOf.size() + 1), ' ');
  }
}

CLI::Validator whole_number(std::uint64_t least) {
  return {[least](const std::string& text) {
            constexpr std::size_t kMaxDigits = 18;
            const bool good = !text.empty() && text.size() <= kMaxDigits &&
                              text.find_first_not_of("0123456789") == std::string::npos &&
                              std::stoull(text) >= least;
            return good ? std::string()
                        : fmt::format("{} is not a whole number of at least {}", text, least);
          },
          ""};
}

void add_size_option(CLI::App& command, const std::string& name, std::uint64_t& bytes,
                     std::uint64_t least, const std::string& what) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 40;
  const auto check = [least](const std::string& given) {
    std::uint64_t size = 0;
    const bool good = CLI::detail::lexical_cast(given, size) && size >= least && size <= kMax;
    return good ? std::string()
                : fmt::format("{} bytes is not a size from {}M to 1T", given, least >> 20U);
  };
  command.add_option(name, bytes, what)
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::Validator(check, ""))
      ->type_name("SIZE");
}

void add_memory_options(CLI::App& command, MemoryOptions& options) {
  constexpr std::uint64_t kMin = std::uint64_t{1} << 20;
  constexpr std::uint64_t kMinTarget = std::uint64_t{4} << 20;
  add_size_option(command, "--memory", options.command, kMin,
                  "Maximum memory of optrace for distinct paths and a timeline;\nfurther paths are "
                  "counted in '...' frames (1G)");
  add_size_option(command, "--target-memory", options.target, kMinTarget,
                  "Maximum memory of optrace in each traced process (64M)");
}

void add_text_or_json_options(CLI::App& command, std::string& format, const char* schema) {
  CLI::Option* const option =
      command.add_option("--format", format, fmt::format("text or json (schema {})", schema))
          ->check(one_of({"text", "json"}))
          ->type_name("FORMAT")
          ->capture_default_str();
  command.add_flag_callback(
             "--json", [&format] { format = "json"; }, "Same as --format json")
      ->excludes(option);
}

void add_output_file_option(CLI::App& command, std::string& file) {
  command.add_option("-o,--output", file, "Write to a file instead of standard output")
      ->type_name("FILE");
}

void add_terminal_options(CLI::App& command, TerminalOptions& options) {
  command
      .add_option_function<std::string>(
          "--colour,--color",
          [&options](const std::string& name) {
            options.colour = name == "always"  ? ColourChoice::always
                             : name == "never" ? ColourChoice::never
                                               : ColourChoice::automatic;
          },
          "When to use colour: auto, always or never")
      ->check(one_of({"auto", "always", "never"}))
      ->type_name("WHEN")
      ->default_str("auto");
  command
      .add_option_function<std::string>(
          "--hyperlink-format",
          [&options](const std::string& format) { options.links = HyperlinkFormat(format); },
          "Links to files on a terminal: none, file, vscode, ..., or a URL\nwith {path}, {line} "
          "and {column}, as for ripgrep")
      ->envname("OPTRACE_HYPERLINK_FORMAT")
      ->type_name("FORMAT")
      ->default_str("default");
  command.add_flag_callback("--no-pager", disable_pager,
                            "Don't show long output on a terminal with $OPTRACE_PAGER,\n$PAGER or "
                            "less");
}

}  // namespace optrace
