#include "report/lines/suggested_commands.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

#include "platform/process/child_process.h"
#include "platform/text/printable_text.h"
#include "present/terminal_text.h"
#include "report/lines/line_layout.h"

namespace optrace {
namespace {

/// Returns true if a word from an untrusted trace is safe in a command that the user may paste.
/// Of options, only those that neither run code nor name files are safe.
bool may_be_pasted(const std::string& word) {
  constexpr auto kOptions =
      std::to_array<std::string_view>({"--device", "--devices", "--dry-run", "--shape", "--dtype",
                                       "--probes", "--requires-grad", "--timeout"});
  const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._:-=").find(c) != std::string_view::npos;
  });
  const std::string_view option = std::string_view(word).substr(0, word.find('='));
  return plain && (word[0] != '-' || std::ranges::find(kOptions, option) != kOptions.end());
}

/// Returns the command that was traced, without --backward: `optrace conv2d --device cuda`. Empty
/// if it must not be suggested.
std::string same_command(const Report& report, bool own_trace) {
  const std::string op = report.recording.op;
  if (op.empty()) return {};
  std::vector<std::string> words{op};
  words.insert(words.end(), report.recording.options.begin(), report.recording.options.end());
  std::string command = "optrace";
  for (const std::string& word : words) {
    if (!own_trace && !may_be_pasted(word)) return {};
    command += " " + printable(shell_word(word));
  }
  return command;
}

/// Returns a pattern of the shell for exactly these files, those of a program's other processes:
/// `train.*.trace` for `train.trace`. Empty if there is none.
std::string pattern_for(const std::filesystem::path& first,
                        std::set<std::filesystem::path> others) {
  const std::string start = first.stem().string() + ".";
  const std::string end = first.extension().string();
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(
           first.has_parent_path() ? first.parent_path() : ".", problem)) {
    const std::string name = entry.path().filename().string();
    const bool matches =
        name.size() >= start.size() + end.size() && name.starts_with(start) && name.ends_with(end);
    if (matches && others.erase(first.parent_path() / name) == 0) return {};
  }
  if (problem || !others.empty()) return {};
  return shell_word((first.parent_path() / start).string()) + "*" + shell_word(end);
}

/// Returns the files as words of a command, each after a space.
std::string words_for(const std::vector<std::filesystem::path>& files) {
  constexpr std::size_t kMany = 3;
  const auto word = [](const std::string& text) { return " " + printable(text); };
  if (files.size() > kMany)
    if (const std::string others = pattern_for(files[0], {files.begin() + 1, files.end()});
        !others.empty())
      return word(shell_word(files[0].string())) + word(others);
  std::string words;
  for (const std::filesystem::path& file : files) words += word(shell_word(file.string()));
  return words;
}

}  // namespace

std::vector<SuggestedCommand> suggested_commands(const Report& report,
                                                 const ReportTextOptions& options) {
  const std::string op = same_command(report, options.own_trace);
  if (op.empty()) return {};
  const bool backward = report.recording.backward;
  const std::string_view times = options.times ? " --times" : "";
  const std::string as_tree = fmt::format("{}{}{}", options.why ? " --why" : "",
                                          options.tensors ? " --tensors" : "", times);
  std::vector<SuggestedCommand> commands;
  if (!backward)
    commands.push_back({fmt::format("{} --backward{}", op, as_tree), "with the backward pass"});
  const std::string same = fmt::format("{}{}", op, backward ? " --backward" : "");
  if (!options.all)
    commands.push_back({fmt::format("{}{} --all", same, as_tree),
                        "with wrapper templates and the interpreter's frames"});
  commands.push_back({fmt::format("{}{} --format json -o FILE", same, times), "for programs"});
  return commands;
}

std::vector<SuggestedCommand> commands_for_traces(const ReportTextOptions& options,
                                                  const std::string& op) {
  if (options.trace_files.empty()) return {};
  const std::string files = words_for(options.trace_files);
  const std::string report = "optrace report" + files;
  std::vector<SuggestedCommand> commands;
  if (!op.empty()) {
    commands.push_back(
        {fmt::format("{} --format text --under {}", report, printable(shell_word(op))),
         "the calls of an op"});
  }
  commands.push_back({report + " --format text", "all calls"});
  commands.push_back({report + " --format html -o report.html", "all of it in a browser"});
  commands.push_back({"optrace findings" + files, "what makes it slow, and what to do"});
  if (options.trace_files.size() == 1)
    commands.push_back({fmt::format("optrace compare{} OTHER", files), "against another trace"});
  return commands;
}

std::string suggestion_lines(std::span<const SuggestedCommand> commands,
                             const TerminalStyle& style) {
  std::size_t width = 0;
  for (const SuggestedCommand& one : commands) width = std::max(width, one.command.size());
  std::string lines;
  for (const SuggestedCommand& one : commands) {
    lines += field_line(
        &one == &commands.front() ? "try" : "",
        fmt::format("{}  {}", padded(one.command, width), style.paint(one.purpose, kDim)), style);
    lines += '\n';
  }
  return lines;
}

}  // namespace optrace
