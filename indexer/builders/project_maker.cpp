#include "indexer/builders/project_maker.h"

#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "indexer/frontend/unit_parser.h"
#include "indexer/sources/file_hashes.h"
#include "indexer/sources/progress_reporter.h"
#include "indexer/sources/python_installation.h"
#include "indexer/sources/source_tree.h"
#include "indexer/sources/work_folder.h"
#include "indexer/store/index_catalogue.h"
#include "indexer/store/index_writer.h"
#include "indexer/store/op_facts.h"
#include "platform/error.h"
#include "platform/files/installation.h"
#include "platform/files/output_file.h"
#include "platform/files/whole_file.h"
#include "platform/process/interrupt.h"
#include "platform/text/json_reader.h"
#include "pytorch/names/op_name.h"

namespace optrace {
namespace {

constexpr const char* kProjectRemedy =
    "Give the folder of a C++ extension that registers ops with TORCH_LIBRARY.";

constexpr std::array<std::string_view, 5> kSources = {".cpp", ".cc", ".cxx", ".cu", ".c++"};

// The headers that most units of an extension include; parsed once for many units.
constexpr const char* kShared = "#include <ATen/ATen.h>\n#include <torch/library.h>\n";
constexpr std::size_t kWorthSharing = 4;  // Units: parsing the header takes as long as three.

struct Project {
  std::filesystem::path folder;  // Absolute.
  std::string name;
};

Project open_project(const MakeProjectOptions& options) {
  std::error_code error;
  if (!std::filesystem::is_directory(options.folder, error)) {
    throw Error(ExitStatus::usage, fmt::format("no such folder: {}", options.folder.string()),
                kProjectRemedy);
  }
  Project project;
  project.folder = std::filesystem::canonical(options.folder, error);
  if (error) {
    throw Error(ExitStatus::usage, fmt::format("{}: {}", options.folder.string(), error.message()),
                kProjectRemedy);
  }
  project.name = options.name.empty() ? project.folder.filename().string() : options.name;
  return project;
}

bool is_source(const std::filesystem::path& path) {
  return std::ranges::find(kSources, path.extension().string()) != kSources.end();
}

bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto inside = path.lexically_relative(folder);
  return !inside.empty() && *inside.begin() != ".." && *inside.begin() != ".";
}

using Commands = std::map<std::filesystem::path, std::vector<std::string>>;

// Reads the compilation database, if there is one: source -> arguments.
Commands read_commands(const std::filesystem::path& folder) {
  Commands commands;
  for (const char* place : {"compile_commands.json", "build/compile_commands.json"}) {
    const auto path = folder / place;
    const std::string text = read_file(path).value_or("");
    if (text.empty()) continue;
    try {
      for (const auto& entry : read_json_or_throw(text)) {
        const auto directory = entry.at("directory").get<std::string>();
        const auto source = (std::filesystem::path(directory) / entry.at("file").get<std::string>())
                                .lexically_normal();
        if (is_source(source) && lies_in(source, folder)) {
          commands[source] = parse_arguments_of(
              entry.contains("arguments") ? entry["arguments"].get<std::vector<std::string>>()
                                          : split_command(entry.at("command").get<std::string>()),
              directory);
        }
      }
    } catch (const nlohmann::json::exception& error) {
      throw Error(ExitStatus::usage,
                  fmt::format("{} can't be read: {}", path.string(), error.what()),
                  "Remove it, or let CMake write it again (CMAKE_EXPORT_COMPILE_COMMANDS).");
    }
    break;
  }
  return commands;
}

// Lists the sources if there is no compilation database, except those in build folders.
Commands list_sources(const std::filesystem::path& folder) {
  Commands commands;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (at->is_directory(ignored) && (name.starts_with('.') || name == "build" || name == "dist"))
      at.disable_recursion_pending();
    else if (at->is_regular_file(ignored) && is_source(at->path()))
      commands[at->path()] = {};
  }
  return commands;
}

UnitsToParse units_of(const Project& project, const PythonInstallation& python) {
  Commands commands = read_commands(project.folder);
  if (commands.empty()) commands = list_sources(project.folder);
  if (commands.empty()) {
    throw Error(ExitStatus::usage,
                fmt::format("there is no C++ or CUDA source in {}", project.folder.string()),
                kProjectRemedy);
  }
  const SourceTree tree{project.folder, python.torch_version};
  UnitsToParse to_parse;
  std::map<std::vector<std::string>, std::size_t> groups;
  std::vector<std::size_t> sizes;
  for (const auto& [source, own] : commands) {
    const bool is_cuda = source.extension() == ".cu";
    auto arguments =
        compiler_arguments(is_cuda ? UnitGroup::cuda : UnitGroup::csrc, tree,
                           project.folder / "build", python, data_folder() / "stub_headers");
    arguments.push_back("-DTORCH_EXTENSION_NAME=" + project.name);
    for (const char* folder : {"include", "csrc", "src"})
      arguments.insert(arguments.end(), {"-I", (project.folder / folder).string()});
    arguments.insert(arguments.end(), own.begin(), own.end());
    const auto [group, is_new] = groups.try_emplace(arguments, groups.size());
    if (is_new) {
      to_parse.groups.push_back({fmt::format("group-{}", group->second), arguments, ""});
      sizes.push_back(0);
    }
    ++sizes[group->second];
    to_parse.units.push_back(
        {source, source.lexically_relative(project.folder).generic_string(), group->second});
  }
  for (std::size_t group = 0; group < sizes.size(); ++group)
    if (sizes[group] >= kWorthSharing) to_parse.groups[group].precompiled_text = kShared;
  to_parse.setup.folders = {{project.folder.string(), ""}};
  return to_parse;
}

// Returns the ops that the project defines, with their schemas.
std::vector<IndexContents::Op> defined_ops(const IndexContents& contents,
                                           const std::filesystem::path& folder) {
  std::map<std::string, IndexContents::Op> ops;
  for (const auto& registration : contents.registrations) {
    if (registration.kind != RegistrationKind::definition) continue;
    IndexContents::Op op;
    op.name = registration.name;
    op.unambiguous_name = unambiguous_name(op.name);
    op.line = registration.line;
    OpFacts facts;
    facts.schema = string_at(read_file(folder / registration.file).value_or(""), registration.line);
    op.facts = to_json(facts);
    ops.emplace(op.name, std::move(op));
  }
  std::vector<IndexContents::Op> listed;
  listed.reserve(ops.size());
  for (auto& [name, op] : ops) listed.push_back(std::move(op));
  return listed;
}

}  // namespace

std::vector<std::string> split_command(std::string_view command) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = '\0';
  for (std::size_t at = 0; at < command.size(); ++at) {
    const char next = command[at];
    if (quote != '\0' && next == quote) {
      quote = '\0';
    } else if (next == '\\' && quote != '\'' && at + 1 < command.size()) {
      word += command[++at];
      in_word = true;
    } else if (quote != '\0') {
      word += next;
    } else if (next == '\'' || next == '"') {
      quote = next;
      in_word = true;
    } else if (next == ' ' || next == '\t' || next == '\n') {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
    } else {
      word += next;
      in_word = true;
    }
  }
  if (in_word) words.push_back(std::move(word));
  return words;
}

std::vector<std::string> parse_arguments_of(const std::vector<std::string>& command,
                                            const std::string& directory) {
  // Options whose value is in the same word or in the next one.
  constexpr std::array<std::string_view, 7> kWithValue = {
      "-isystem", "-iquote", "-idirafter", "-include", "-I", "-D", "-U"};
  std::vector<std::string> kept;
  for (std::size_t at = 1; at < command.size(); ++at) {
    const std::string& word = command[at];
    const auto* const option = std::ranges::find_if(
        kWithValue, [&](std::string_view name) { return word.starts_with(name); });
    if (option != kWithValue.end()) {
      std::string value = word.substr(option->size());
      if (value.empty() && at + 1 < command.size()) value = command[++at];
      const bool is_path = !option->ends_with('D') && !option->ends_with('U');
      if (is_path && (*option != "-include" ||
                      std::filesystem::exists(std::filesystem::path(directory) / value))) {
        value = (std::filesystem::path(directory) / value).lexically_normal().string();
      }
      kept.insert(kept.end(), {std::string(*option), std::move(value)});
    } else if (word.starts_with("-std=") || word.starts_with("-mavx") || word == "-mfma") {
      kept.push_back(word);
    }
  }
  return kept;
}

std::string string_at(std::string_view text, std::uint32_t line) {
  std::size_t at = 0;
  for (std::uint32_t number = 1; number < line; ++number) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return "";
    ++at;
  }
  at = text.find('(', at);
  if (at == std::string_view::npos) return "";
  ++at;
  std::string joined;
  for (;;) {
    at = text.find_first_not_of(" \t\r\n", at);
    if (at == std::string_view::npos) return joined;
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("R\"")) {
      const std::size_t open = rest.find('(');
      if (open == std::string_view::npos) return joined;
      const std::string close = fmt::format("){}\"", rest.substr(2, open - 2));
      const std::size_t end = rest.find(close, open);
      if (end == std::string_view::npos) return joined;
      joined += rest.substr(open + 1, end - open - 1);
      at += end + close.size();
    } else if (rest.starts_with('"')) {
      std::size_t end = 1;
      while (end < rest.size() && rest[end] != '"') {
        end += rest[end] == '\\' ? 1U : 0U;
        joined += end < rest.size() ? std::string(1, rest[end]) : "";
        ++end;
      }
      at += end + 1;
    } else {
      // `TORCH_SELECTIVE_SCHEMA("...")` and similar macros.
      const std::size_t word = rest.find_first_not_of(
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_:0123456789");
      if (!joined.empty() || word == 0 || word == std::string_view::npos || rest[word] != '(')
        return joined;
      at += word + 1;
    }
    if (at >= text.size()) return joined;
  }
}

MadeIndex make_project_index(const MakeProjectOptions& options) {
  const Project project = open_project(options);
  const std::filesystem::path path =
      options.output.empty() ? own_project_path(project.name) : options.output;
  {
    const OutputFile trial(path);
  }
  const InterruptGuard guard;
  ProgressReporter progress;
  const PythonInstallation python = examine_python(options.python);
  const UnitsToParse to_parse = units_of(project, python);
  const WorkFolder work(project.folder, python.torch_folder);
  FileHashes hashes;
  ParsedUnits parsed =
      parse_units(to_parse, work, hashes,
                  {.jobs = options.jobs, .worker_memory = options.worker_memory}, progress);
  IndexContents contents = merge_findings(parsed.units, parsed.headers);
  if (contents.functions.empty()) {
    throw Error(ExitStatus::failed,
                fmt::format("nothing was found in the {} sources of {}; the first failure: {}",
                            to_parse.units.size(), project.folder.string(),
                            parsed.failed.empty() ? "none" : parsed.failed.front().reason),
                kProjectRemedy);
  }
  contents.ops = defined_ops(contents, project.folder);
  contents.meta = {{"torch_version", python.torch_version},
                   {"project", project.name},
                   {"source", project.folder.string()},
                   {"units", std::to_string(to_parse.units.size())},
                   {"units_failed", std::to_string(parsed.failed.size())}};
  write_index(std::move(contents), path);
  return {.path = path,
          .torch_version = python.torch_version,
          .units = to_parse.units.size(),
          .parsed = parsed.parsed_now,
          .failed = std::move(parsed.failed),
          .differing = {}};
}

}  // namespace optrace
