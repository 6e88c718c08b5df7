#include "src/index_choice.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "indexer/making/on_demand.h"
#include "indexer/store/index_catalogue.h"
#include "platform/error.h"
#include "platform/printable_text.h"
#include "report/model/source_link.h"
#include "src/standard_output.h"

namespace optrace {
namespace {

using std::filesystem::path;

// torch/version.py and pyvenv.cfg have about 300 bytes each.
constexpr std::size_t kMaxFileLength = 64 << 10;
constexpr std::size_t kMaxVersionLength = 100;

// Returns the first bytes of a regular file, or an empty string if there is no such file.
std::string small_file(const path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMaxFileLength, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Returns the right side of a line `name = value` or `name: type = value`, or an empty string.
std::string_view assigned(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view left = line.substr(0, std::min(line.find(':'), equals));
    if (trimmed(left) == name) return trimmed(line.substr(equals + 1));
  }
  return {};
}

// Returns a version or commit in quotes, or an empty string for anything else.
std::string quoted(std::string_view value) {
  if (value.size() < 2 || (value.front() != '\'' && value.front() != '"')) return {};
  const std::size_t end = value.find(value.front(), 1);
  if (end == std::string_view::npos) return {};
  const std::string_view text = value.substr(1, end - 1);
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(".+-_").find(c) != std::string_view::npos;
  };
  if (text.size() > kMaxVersionLength || !std::all_of(text.begin(), text.end(), is_plain))
    return {};
  return std::string(text);
}

std::optional<InstalledTorch> torch_in(const path& site_packages, const path& python) {
  const path folder = site_packages / "torch";
  const std::string text = small_file(folder / "version.py");
  std::string version = quoted(assigned(text, "__version__"));
  if (version.empty()) return std::nullopt;
  return InstalledTorch{python, folder, std::move(version), quoted(assigned(text, "git_version"))};
}

// Returns the name of a program called `python3.11`, which its library folder has too. Empty if the
// name is only `python3`.
std::string versioned_name(const path& program) {
  const std::string name = program.filename().string();
  return name.starts_with("python3.") ? name : std::string();
}

// Adds lib/python3.11/site-packages and similar folders below a prefix. `name` is `python3.11`;
// empty: any version.
void add_site_packages(const path& prefix, const std::string& name, std::vector<path>& folders) {
  for (const char* const library : {"lib", "lib64"}) {
    std::error_code error;
    std::vector<path> versions;
    for (std::filesystem::directory_iterator at(prefix / library, error), end; !error && at != end;
         at.increment(error)) {
      const std::string found = at->path().filename().string();
      if (name.empty() ? found.starts_with("python3.") : found == name)
        versions.push_back(at->path());
    }
    std::sort(versions.begin(), versions.end());
    for (const path& version : versions) {
      folders.push_back(version / "site-packages");
      folders.push_back(version / "dist-packages");
    }
  }
}

void add_python_path(std::vector<path>& folders) {
  const char* const variable = std::getenv("PYTHONPATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (!folder.empty()) folders.emplace_back(folder);
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
}

// Adds the folders of the interpreter's own installation, following all links.
void add_installation(const path& program, std::vector<path>& folders) {
  std::error_code error;
  const path real = std::filesystem::canonical(program, error);
  if (error) return;
  const path prefix = real.parent_path().parent_path();
  const std::string name = versioned_name(real);
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home != '\0')
    add_site_packages(path(home) / ".local", name, folders);
  if (prefix == "/usr") {  // Debian's Python.
    add_site_packages("/usr/local", name, folders);
    folders.emplace_back("/usr/lib/python3/dist-packages");
  }
  add_site_packages(prefix, name, folders);
}

}  // namespace

std::optional<InstalledTorch> find_torch(const path& python) {
  std::error_code error;
  const path program = std::filesystem::absolute(python, error);
  if (error) return std::nullopt;
  std::vector<path> folders;
  add_python_path(folders);
  // A virtual environment's python is a link; the environment is the folder of the link (PEP 405).
  const path prefix = program.parent_path().parent_path();
  if (const std::string settings = small_file(prefix / "pyvenv.cfg"); !settings.empty()) {
    add_site_packages(prefix, {}, folders);
    if (assigned(settings, "include-system-site-packages") == "true")
      add_installation(program, folders);
  } else {
    add_installation(program, folders);
  }
  for (const path& folder : folders)
    if (auto torch = torch_in(folder, python)) return torch;
  return std::nullopt;
}

IndexChoice choose_index(const std::string& python_option) {
  std::vector<std::string> notices;
  std::optional<InstalledTorch> torch;
  std::string absence;
  try {
    const PythonChoice python = choose_python(python_option);
    torch = find_torch(python.path);
    if (!torch)
      absence = fmt::format("no torch found for {} ({})", python.path.string(), python.reason);
  } catch (const Error& error) {
    // A Python that was asked for must exist. Otherwise none is needed to look up a name.
    if (!python_option.empty() || std::getenv("OPTRACE_PYTHON") != nullptr) throw;
    absence = error.what();
  }
  // Without a torch, the newest index is most likely the one wanted.
  constexpr std::string_view kNewest = "9999.0.0";
  std::optional<Index> index =
      find_index(torch ? std::string_view(torch->version) : kNewest,
                 torch ? std::string_view(torch->git_version) : std::string_view(), &notices);
  if (!index) {
    throw Error(ExitStatus::usage, "there is no index of PyTorch's source",
                "`optrace source add DIR` creates one from a PyTorch source tree.");
  }
  const bool exact = torch && is_exact_source(*index, torch->version, torch->git_version);
  if (!torch) {
    notices.push_back(
        fmt::format("{}; the answers are for torch {}", absence, index->torch_version()));
  } else if (!exact) {
    notices.push_back(
        fmt::format("there is no index of torch {}; lines marked ~ are those of torch {} (`optrace "
                    "source fetch` creates an index of the installed torch)",
                    torch->version, index->torch_version()));
  }
  std::vector<Index> projects = find_project_indexes(&notices);
  return {std::move(*index), std::move(projects), std::move(torch), exact, std::move(notices)};
}

bool index_on_demand(const std::vector<std::string>& names, const std::string& python_option,
                     IndexChoice& choice) {
  if (!lacks(choice.index, names)) return false;
  // If indexing fails, the existing contents can still be shown.
  try {
    add_on_demand(choice.index, names);
  } catch (const Error& error) {
    if (error.status() == ExitStatus::interrupted) throw;
    choice.notices = {fmt::format("not indexed on demand: {} {}", error.what(), error.remedy())};
    return false;
  }
  choice = choose_index(python_option);
  choice.notices.clear();
  return true;
}

void say_notices(IndexChoice& choice) {
  for (const std::string& notice : choice.notices) write_message(notice);
  choice.notices.clear();
}

LocateSource source_of(const IndexChoice& choice) {
  LocateSource source;
  if (choice.torch) {
    source.torch_version = choice.torch->version;
    source.torch_git_version = choice.torch->git_version;
  }
  source.version = choice.index.torch_version();
  source.exact = choice.exact;
  return source;
}

}  // namespace optrace
