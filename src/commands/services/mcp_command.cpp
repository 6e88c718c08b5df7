#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/installation.h"
#include "src/commands/command.h"
#include "src/inputs/python_choice.h"
#include "src/options/common_options.h"

namespace optrace {
namespace {

struct McpOptions {
  std::string python;
};

/// Set by the package's own command (python/optrace/_command.py): its Python.
constexpr const char* kPackagePython = "OPTRACE_OWN_PYTHON";

/// Returns the server's program, which the Python package contains.
std::filesystem::path server_program() {
  const std::filesystem::path folder = installation_folder();
  for (const auto& file : {folder / "mcp_server.py", folder / "python/optrace/mcp_server.py"}) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored)) return file;
  }
  throw Error(ExitStatus::usage, "this installation of optrace has no Python package",
              "Install it with pip: pip install 'optrace[mcp]'");
}

/// Replaces this process with the server.
void run(const McpOptions& options) {
  const std::string program = server_program().string();
  const char* const own = std::getenv(kPackagePython);
  const std::string python = own != nullptr && *own != '\0'
                                 ? std::string(own)
                                 : choose_python(options.python).path.string();
  std::vector<std::string> words = {python, program, "--command", program_file().string()};
  if (!options.python.empty()) {
    words.emplace_back("--python");
    words.push_back(choose_python(options.python).path.string());
  }
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(python.c_str(), arguments.data());
  throw Error(ExitStatus::failed, fmt::format("{} can't be run: {}", python, describe_errno(errno)),
              "Name a Python that has the package mcp with --python.");
}

OptionRows option_rows(McpOptions& options) {
  return {python_row(options.python)};
}

}  // namespace

CommandBody mcp_command() {
  return command_body<McpOptions>(option_rows, run);
}

}  // namespace optrace
