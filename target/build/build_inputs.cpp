#include "target/build/build_inputs.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/files/file_trust.h"
#include "platform/files/whole_file.h"
#include "target/build/build_steps.h"

namespace optrace {
namespace {

constexpr std::string_view kFormat = "optrace-inputs/2";
constexpr std::string_view kNote = ".d";

std::filesystem::path resolved(const std::filesystem::path& path) {
  std::error_code error;
  const auto result = std::filesystem::canonical(path, error);
  return error ? path : result;
}

/// Removes the text up to and including `separator`, and returns it without the separator.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

struct Library {
  std::string hash;
  std::string name;
};

struct Input {
  std::string hash;
  std::string state;
  std::filesystem::path path;  ///< Relative if it is below the packages.
};

/// The contents of a list. As text: the format and the number of libraries, then a line for each
/// library and for each input.
struct InputList {
  std::vector<Library> libraries;
  std::vector<Input> inputs;
};

/// Returns nullopt if the text is not a list.
std::optional<InputList> parse_list(std::string_view text) {
  std::string_view first = cut(text, '\n');
  if (cut(first, ' ') != kFormat) return std::nullopt;
  std::size_t count = 0;
  std::from_chars(first.data(), first.data() + first.size(), count);
  InputList list;
  for (; list.libraries.size() < count && !text.empty();) {
    std::string_view line = cut(text, '\n');
    const std::string_view hash = cut(line, ' ');
    list.libraries.push_back({std::string(hash), std::string(line)});
  }
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    Input input;
    input.hash = cut(line, ' ');
    input.state = cut(line, ' ');
    input.path = line;
    list.inputs.push_back(std::move(input));
  }
  if (list.libraries.empty() || list.inputs.empty()) return std::nullopt;
  return list;
}

std::string text_of(const InputList& list) {
  std::string text = fmt::format("{} {}\n", kFormat, list.libraries.size());
  for (const Library& library : list.libraries)
    text += fmt::format("{} {}\n", library.hash, library.name);
  for (const Input& input : list.inputs)
    text += fmt::format("{} {} {}\n", input.hash, input.state, input.path.string());
  return text;
}

/// Returns the libraries of a list if they have not changed since.
std::optional<std::vector<std::filesystem::path>> libraries_of(
    const InputList& list, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  paths.reserve(list.libraries.size());
  for (const Library& library : list.libraries) {
    paths.push_back(folder / library.name);
    if (content_hash(paths.back()) != library.hash) return std::nullopt;
  }
  return paths;
}

/// Returns true if the inputs still have the same contents. Updates the states of others.
bool are_unchanged(std::vector<Input>& inputs, const std::filesystem::path& packages,
                   bool& any_new) {
  for (Input& input : inputs) {
    const std::filesystem::path path = packages / input.path;  // Stays unchanged if absolute.
    const auto state = state_of(path);
    if (!state) return false;
    if (text_of(*state) == input.state) continue;
    if (content_hash(path) != input.hash) return false;
    if (!is_settled(*state)) continue;
    input.state = text_of(*state);
    any_new = true;
  }
  return true;
}

/// Returns the program that a driver such as g++ starts to compile; nullopt for a compiler that is
/// a single program.
std::optional<std::filesystem::path> compiler_proper(const std::filesystem::path& folder,
                                                     const std::filesystem::path& compiler,
                                                     const std::function<void()>& go_on) {
  if (run_build_steps({{compiler.string(), "-print-prog-name=cc1plus"}}, 1, folder, go_on))
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
                                                   const std::filesystem::path& compiler,
                                                   const std::function<void()>& go_on) {
  const std::filesystem::path own = resolved(folder);
  std::set<std::filesystem::path> files{resolved(compiler)};
  if (const auto proper = compiler_proper(folder, compiler, go_on)) files.insert(resolved(*proper));
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != kNote) continue;
    for (const auto& file : parse_dependencies(read_file(entry.path()).value_or("")))
      if (auto path = resolved(folder / file); !is_below(path, own)) files.insert(std::move(path));
  }
  return {files.begin(), files.end()};
}

std::string describe_inputs(const std::vector<std::filesystem::path>& libraries,
                            const std::vector<std::filesystem::path>& files,
                            const std::filesystem::path& packages) {
  InputList list;
  for (const auto& library : libraries) {
    auto hash = content_hash(library);
    if (!hash) return {};
    list.libraries.push_back({std::move(*hash), library.filename().string()});
  }
  const std::filesystem::path below = resolved(packages);
  for (const auto& file : files) {
    const auto state = state_of(file);
    auto hash = content_hash(file);
    if (!state || !hash || file.string().find('\n') != std::string::npos) return {};
    // A file that has just changed could change again without a new state: the next run compares
    // its content.
    list.inputs.push_back({std::move(*hash), is_settled(*state) ? text_of(*state) : "new",
                           is_below(file, below) ? file.lexically_relative(below) : file});
  }
  return text_of(list);
}

std::optional<std::vector<std::filesystem::path>> unchanged_libraries(
    const std::filesystem::path& folder, const std::filesystem::path& packages) {
  const auto text = read_file(inputs_path(folder));
  auto list = text ? parse_list(*text) : std::nullopt;
  auto libraries = list ? libraries_of(*list, folder) : std::nullopt;
  bool any_new = false;
  if (!libraries || !are_unchanged(list->inputs, resolved(packages), any_new)) return std::nullopt;
  if (any_new) {
    try {
      write_file(inputs_path(folder), text_of(*list));
    } catch (const Error&) {
      return libraries;  // The contents are compared again in the next run.
    }
  }
  return libraries;
}

std::filesystem::path inputs_path(const std::filesystem::path& folder) {
  return folder / "inputs";
}

}  // namespace optrace
