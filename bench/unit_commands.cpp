// unit_commands TREE PYTHON FOLDER: generates the tree's code into FOLDER, unless it exists, and
// writes FOLDER/compile_commands.json with every unit that optrace indexes and its compiler
// arguments, so that another indexer can read the same units.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "indexer/catalogue/code_generation.h"
#include "indexer/sources/python_installation.h"
#include "indexer/sources/source_tree.h"
#include "platform/error.h"
#include "platform/files/installation.h"
#include "platform/files/output_file.h"

namespace {

void write_commands(const char* source, const char* python_path,
                    const std::filesystem::path& folder) {
  using namespace optrace;
  const SourceTree tree = open_source_tree(source);
  const PythonInstallation python = examine_python(python_path);
  const auto generated = std::filesystem::absolute(folder) / "generated";
  if (!std::filesystem::exists(generated)) generate_code(tree, python, generated);
  std::vector<SourceUnit> units = list_units(tree.folder);
  for (auto& unit : list_units(generated)) units.push_back(std::move(unit));
  nlohmann::json commands = nlohmann::json::array();
  for (const auto& unit : units) {
    std::vector<std::string> arguments = {"clang++"};
    for (auto& argument :
         compiler_arguments(unit.group, tree, generated, python, data_folder() / "stub_headers"))
      arguments.push_back(std::move(argument));
    arguments.insert(arguments.end(), {"-c", unit.path.string()});
    commands.push_back({{"directory", folder.string()},
                        {"file", unit.path.string()},
                        {"name", unit.name},
                        {"group", group_name(unit.group)},
                        {"arguments", arguments}});
  }
  OutputFile file(folder / "compile_commands.json");
  file.write(commands.dump(1));
  file.commit();
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 4) {
    fmt::print(stderr, "usage: unit_commands TREE PYTHON FOLDER\n");
    return 2;
  }
  try {
    write_commands(arguments[1], arguments[2], arguments[3]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "unit_commands: {}\n", error.what());
    return 3;
  }
}
