#include "tracer/runtime_build/build_inputs.h"

#include <algorithm>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "platform/error.h"
#include "platform/file_trust.h"
#include "platform/output_file.h"
#include "platform/whole_file.h"
#include "tracer/runtime_build/built_for_torch.h"

namespace optrace {
namespace {

constexpr std::string_view kFormat = "optrace-inputs/1";
constexpr std::string_view kNote = ".d";

std::filesystem::path resolved(const std::filesystem::path& path) {
  std::error_code error;
  auto result = std::filesystem::canonical(path, error);
  return error ? path : result;
}

/// Removes the text up to and including `separator`, and returns it without the separator.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

struct Input {
  std::string hash;
  std::string state;
  std::filesystem::path path;  ///< Relative if it is below the packages.
};

/// Returns nullopt if the text is not a list for a library with this content.
std::optional<std::vector<Input>> parse_inputs(std::string_view text, std::string_view library) {
  std::string_view first = cut(text, '\n');
  if (cut(first, ' ') != kFormat || first != library) return std::nullopt;
  std::vector<Input> inputs;
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    Input input;
    input.hash = cut(line, ' ');
    input.state = cut(line, ' ');
    input.path = line;
    inputs.push_back(std::move(input));
  }
  if (inputs.empty()) return std::nullopt;
  return inputs;
}

std::string text_of(const std::vector<Input>& inputs, std::string_view library) {
  std::string text = fmt::format("{} {}\n", kFormat, library);
  for (const Input& input : inputs)
    text += fmt::format("{} {} {}\n", input.hash, input.state, input.path.string());
  return text;
}

/// Returns the program that a driver such as g++ starts to compile; nullopt for a compiler that is
/// a single program.
std::optional<std::filesystem::path> compiler_proper(const std::filesystem::path& folder,
                                                     const std::filesystem::path& compiler) {
  if (run_build_steps({{compiler.string(), "-print-prog-name=cc1plus"}}, 1, folder))
    return std::nullopt;
  std::string said = read_file(folder / "said-0").value_or("");
  said.resize(std::min(said.find('\n'), said.size()));
  std::filesystem::path path = said;
  if (!path.is_absolute() || !state_of(path)) return std::nullopt;
  return path;
}

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return path.string().starts_with(folder.string() + "/");
}

}  // namespace

std::vector<std::string> dependency_arguments(const std::filesystem::path& object) {
  return {"-MD", "-MF", object.string() + std::string(kNote)};
}

std::vector<std::filesystem::path> parse_dependencies(std::string_view rule) {
  std::vector<std::filesystem::path> files;
  // The target ends at the first colon that is followed by a space.
  std::size_t at = rule.find(": ");
  if (at == std::string_view::npos) return files;
  std::string name;
  const auto end_name = [&] {
    if (!name.empty()) files.emplace_back(std::exchange(name, {}));
  };
  for (at += 2; at < rule.size(); ++at) {
    const char character = rule[at];
    const char next = at + 1 < rule.size() ? rule[at + 1] : '\0';
    if (character == '\\' && next == '\n') {
      end_name();
      ++at;
    } else if ((character == '\\' && (next == ' ' || next == '#' || next == '\\')) ||
               (character == '$' && next == '$')) {
      name += next;
      ++at;
    } else if (character == ' ' || character == '\n') {
      end_name();
    } else {
      name += character;
    }
  }
  end_name();
  return files;
}

std::vector<std::filesystem::path> inputs_of_build(const std::filesystem::path& folder,
                                                   const std::filesystem::path& compiler) {
  const std::filesystem::path own = resolved(folder);
  std::set<std::filesystem::path> files{resolved(compiler)};
  if (const auto proper = compiler_proper(folder, compiler)) files.insert(resolved(*proper));
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != kNote) continue;
    for (const auto& file : parse_dependencies(read_file(entry.path()).value_or("")))
      if (auto path = resolved(folder / file); !is_below(path, own)) files.insert(std::move(path));
  }
  return {files.begin(), files.end()};
}

std::string describe_inputs(const std::filesystem::path& library,
                            const std::vector<std::filesystem::path>& files,
                            const std::filesystem::path& packages) {
  const auto built = content_hash(library);
  if (!built) return {};
  const std::filesystem::path below = resolved(packages);
  std::vector<Input> inputs;
  for (const auto& file : files) {
    const auto state = state_of(file);
    auto hash = content_hash(file);
    if (!state || !hash || file.string().find('\n') != std::string::npos) return {};
    // A file that has just changed could change again without a new state: the next run compares
    // its content.
    inputs.push_back({std::move(*hash), is_settled(*state) ? text_of(*state) : "new",
                      is_below(file, below) ? file.lexically_relative(below) : file});
  }
  return text_of(inputs, *built);
}

bool inputs_are_the_same(const std::filesystem::path& library,
                         const std::filesystem::path& packages) {
  const auto text = read_file(inputs_path(library));
  const auto hash = text ? content_hash(library) : std::nullopt;
  auto inputs = hash ? parse_inputs(*text, *hash) : std::nullopt;
  if (!inputs) return false;
  const std::filesystem::path below = resolved(packages);
  bool any_new = false;
  for (Input& input : *inputs) {
    const std::filesystem::path path = below / input.path;  // An absolute path stays unchanged.
    const auto state = state_of(path);
    if (!state) return false;
    if (text_of(*state) == input.state) continue;
    if (content_hash(path) != input.hash) return false;
    if (!is_settled(*state)) continue;
    input.state = text_of(*state);
    any_new = true;
  }
  if (any_new) {
    try {
      write_file(inputs_path(library), text_of(*inputs, *hash));
    } catch (const Error&) {
      return true;  // The contents are compared again in the next run.
    }
  }
  return true;
}

std::filesystem::path inputs_path(const std::filesystem::path& library) {
  return library.string() + ".inputs";
}

}  // namespace optrace
