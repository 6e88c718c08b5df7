#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/installation.h"
#include "src/commands/command.h"
#include "src/inputs/python_choice.h"

namespace optrace {
namespace {

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
void serve(const std::string& python_option) {
  const std::string program = server_program().string();
  const char* const own = std::getenv(kPackagePython);
  const std::string python = own != nullptr && *own != '\0'
                                 ? std::string(own)
                                 : choose_python(python_option).path.string();
  std::vector<std::string> words = {python, program, "--command", program_file().string()};
  if (!python_option.empty()) {
    words.emplace_back("--python");
    words.push_back(choose_python(python_option).path.string());
  }
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(python.c_str(), arguments.data());
  throw Error(ExitStatus::failed, fmt::format("{} can't be run: {}", python, describe_errno(errno)),
              "Name a Python that has the package mcp with --python.");
}

}  // namespace

void add_mcp_command(Command& app) {
  Command& command = app.add_subcommand(
      "mcp", "Serve a coding assistant: locate, explain, trace_op, report, findings");
  command.footer(
      "A server of the Model Context Protocol on standard input and output, which an assistant\n"
      "starts. Needs the package mcp: pip install 'optrace[mcp]'. docs/editors.md has the set-up.\n"
      "The tool trace_op runs the Python code that the assistant gives.");
  const auto python = std::make_shared<std::string>();
  command.add_option("--python", *python, "The Python that has torch").type_name("PATH");
  command.callback([python] { serve(*python); });
}

}  // namespace optrace
