#include "src/completion/index_names.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include <sys/stat.h>
#include <unistd.h>

#include "lookup/locate/source_indexes.h"
#include "platform/error.h"
#include "platform/text/printable_text.h"
#include "pytorch/names/op_name.h"
#include "pytorch/names/python_names.h"

namespace optrace {
namespace {

using Words = std::set<std::string, std::less<>>;

constexpr std::string_view kOps = "aten::";

std::optional<SelectedIndex> index() {
  try {
    return choose_index("");
  } catch (const Error&) {
    return std::nullopt;  // Without an index there is nothing to complete.
  }
}

// A name with an underscore is private, unless that is how it is asked for.
bool is_offered(std::string_view name, std::string_view start) {
  return name.starts_with(start) && (!name.starts_with('_') || start.starts_with('_'));
}

void add_space(std::string_view space, std::string_view start, Words& words) {
  if (space.starts_with(start) && space != start) words.emplace(space);
}

void add_spaces(std::string_view start, Words& words) {
  for (const PythonNamespace& space : kPythonNamespaces) add_space(space.written, start, words);
  add_space(kOps, start, words);
}

// Adds ops with their namespace and overload: `aten::add.Tensor`.
void add_full_ops(const SourceIndexes& index, std::string_view start, Words& words) {
  for (const OpEntry& op : index.ops())
    if (op.name.starts_with(start)) words.emplace(op.name);
  for (const Registration& one : index.extension_registrations())
    if (one.name.starts_with(start)) words.emplace(one.name);
}

// Adds ops by their plain names: `conv2d`.
void add_plain_ops(const SourceIndexes& index, std::string_view start, Words& words) {
  for (const OpEntry& op : index.ops())
    if (OpName name = split_op_name(op.name); is_offered(name.base, start))
      words.insert(std::move(name.base));
}

// Adds the names of one level in a namespace of Python.
void add_python_names(const Index& index, std::string_view start, const PythonNamespace& space,
                      Words& words) {
  const std::string full =
      std::string(space.full) + std::string(start.substr(space.written.size()));
  const std::size_t last = full.rfind('.') + 1;
  for (const PythonName& one : index.python_names()) {
    if (!one.name.starts_with(full) || !is_offered(one.name.substr(last), full.substr(last)))
      continue;
    const std::size_t dot = one.name.find('.', last);
    const std::string_view level = one.name.substr(0, dot);
    words.insert(std::string(space.written) + std::string(level.substr(space.full.size())));
  }
}

std::vector<std::string> as_list(const Words& words) {
  return {words.begin(), words.end()};
}

std::string first_text(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string text(200, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
  std::ranges::replace(text, '\0', ' ');
  return printable(text);
}

bool is_own_python(const std::filesystem::path& process) {
  struct stat status{};
  if (::stat(process.c_str(), &status) != 0) return false;
  if (status.st_uid != ::geteuid() && ::geteuid() != 0) return false;
  std::error_code error;
  const auto program = std::filesystem::read_symlink(process / "exe", error);
  return !error && program.filename().string().starts_with("python");
}

}  // namespace

std::vector<std::string> IndexNames::ops(std::string_view start) const {
  Words words;
  add_spaces(start, words);
  const std::optional<SelectedIndex> choice = index();
  if (!choice || start.empty()) return as_list(words);
  const SourceIndexes indexes(choice->index, choice->projects);
  if (start.find("::") != std::string_view::npos) add_full_ops(indexes, start, words);
  if (start.find_first_of(".:") == std::string_view::npos) add_plain_ops(indexes, start, words);
  for (const PythonNamespace& space : kPythonNamespaces) {
    if (!start.starts_with(space.written)) continue;
    add_python_names(choice->index, start, space, words);
    break;
  }
  return as_list(words);
}

std::vector<std::string> IndexNames::names(std::string_view start) const {
  return ops(start);
}

std::vector<Candidate> IndexNames::processes(std::string_view start) const {
  std::vector<Candidate> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos || !name.starts_with(start))
      continue;
    if (is_own_python(at->path()))
      found.push_back({.word = name, .help = first_text(at->path() / "cmdline")});
  }
  return found;
}

}  // namespace optrace
