#include "pytorch/installed/installed_torch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "platform/files/settings_text.h"
#include "platform/process/child_process.h"
#include "platform/process/interrupt.h"
#include "pytorch/installed/torch_version.h"

namespace optrace {
namespace {

using std::filesystem::path;

// Returns a version or commit, or an empty string for anything else.
std::string plain(const std::optional<std::string>& value) {
  constexpr std::size_t kMaxLength = 100;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(".+-_").find(c) != std::string_view::npos;
  };
  if (!value || value->size() > kMaxLength || !std::all_of(value->begin(), value->end(), is_plain))
    return {};
  return *value;
}

std::optional<InstalledTorch> torch_in(const path& site_packages, const path& python) {
  const path folder = site_packages / "torch";
  const auto file = read_torch_version(folder);
  if (!file) return std::nullopt;
  std::string version = plain(file->version);
  if (version.empty()) return std::nullopt;
  return InstalledTorch{python, folder, std::move(version), plain(file->git_version)};
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
    std::ranges::sort(versions);
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
  if (const std::string settings = read_settings(prefix / "pyvenv.cfg").value_or("");
      !settings.empty()) {
    add_site_packages(prefix, {}, folders);
    if (assigned_value(settings, "include-system-site-packages") == "true")
      add_installation(program, folders);
  } else {
    add_installation(program, folders);
  }
  for (const path& folder : folders)
    if (auto torch = torch_in(folder, python)) return torch;
  return std::nullopt;
}

namespace {

constexpr int kAnswerDescriptor = 3;  // The pipe's descriptor number in that Python.
// Answers through a pipe, because modules that `site` imports may have written to standard output.
// Nothing may be imported from the current folder, which comes first with -c; sys is built in.
constexpr const char* kQuestion =
    "import sys\n"
    "sys.path[:] = [folder for folder in sys.path if folder]\n"
    "import importlib.util, os\n"
    "found = importlib.util.find_spec('torch')\n"
    "os.write(3, os.fsencode(os.path.dirname(found.origin)) if found and found.origin else b'')\n";

/// Returns everything that a Python writes to a pipe until it closes it.
std::string read_all(const Descriptor& pipe) {
  constexpr std::size_t kMaxLength = 4096;
  constexpr std::chrono::seconds kTimeout{60};
  const auto end = std::chrono::steady_clock::now() + kTimeout;
  std::string text;
  while (text.size() < kMaxLength && std::chrono::steady_clock::now() < end) {
    InterruptGuard::throw_if_interrupted();
    pollfd watched{pipe.get(), POLLIN, 0};
    if (::poll(&watched, 1, 100) <= 0) continue;
    std::array<char, kMaxLength> buffer;
    const ssize_t size = ::read(pipe.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  return text;
}

}  // namespace

std::filesystem::path ask_for_torch(const std::filesystem::path& python) {
  std::array<int, 2> numbers{};
  if (::pipe2(numbers.data(), O_CLOEXEC) != 0) return {};
  const Descriptor answer(numbers[0]);
  Descriptor theirs(numbers[1]);
  const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  try {
    // The environment is kept, because it may define where torch is (PYTHONPATH, the user's
    // site-packages). An empty entry in PYTHONPATH means the working folder, which is therefore
    // changed; the path of the Python must not depend on it.
    const bool is_path = python.has_parent_path();
    const ChildProcess child(
        {.arguments = {(is_path ? std::filesystem::absolute(python) : python).string(), "-c",
                       kQuestion},
         .environment = {{"PYTHONSAFEPATH", "1"}},
         .descriptors = {{theirs.get(), kAnswerDescriptor},
                         {nothing.get(), STDIN_FILENO},
                         {nothing.get(), STDOUT_FILENO},
                         {nothing.get(), STDERR_FILENO}},
         .working_folder = "/"});
    theirs.close();
    return read_all(answer);
  } catch (const Error& error) {
    if (error.status() == ExitStatus::interrupted) throw;
    return {};
  }
}

}  // namespace optrace
