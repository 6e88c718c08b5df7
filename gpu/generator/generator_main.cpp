// Generates the functions of a CUDA library that are not handwritten (gpu/generator/):
//
//     optrace-device-generator define|forward FAMILY FUNCTIONS OUTPUT [COMPILER ARGUMENT...]
//
// FUNCTIONS is a file with one function name per line. `define` defines these functions and all
// others that the family's headers declare. `forward` makes forwarders that record calls of them.
// It is a separate process because a compiler front end may crash on a header.

#include <csignal>
#include <exception>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <sys/prctl.h>

#include "gpu/generator/definition_writer.h"
#include "gpu/generator/forwarder_writer.h"
#include "gpu/generator/prototype_reader.h"
#include "gpu/libraries/device_families.h"
#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/libclang/libclang_loader.h"
#include "platform/programs.h"

namespace {

using namespace optrace;

/// Returns true if a folder in the compiler arguments contains the header.
bool has_header(const std::vector<std::string>& arguments, std::string_view header) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const bool folder = arguments[i - 1] == "-isystem" || arguments[i - 1] == "-idirafter";
    if (folder && std::ifstream(fmt::format("{}/{}", arguments[i], header))) return true;
  }
  return false;
}

void generate(bool forward, const DeviceFamily& family, const std::string& functions_file,
              const std::string& output, const std::vector<std::string>& arguments) {
  std::set<std::string> asked;
  std::ifstream file(functions_file);
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) asked.insert(line);
  std::vector<std::string> headers;
  for (const std::string_view header : family.headers)
    if (!header.empty() && has_header(arguments, header)) headers.emplace_back(header);
  const auto accepts = [&](std::string_view name) {
    return asked.contains(std::string(name)) || family_of_function(name) == &family;
  };
  std::vector<Prototype> prototypes;
  if (!headers.empty()) prototypes = read_prototypes(write_includes(headers), arguments, accepts);
  for (const Prototype& prototype : prototypes) asked.erase(prototype.name);
  OutputFile result(output);
  result.write(forward ? write_forwarders(family, headers, prototypes)
                       : write_definitions(family, headers, prototypes,
                                           std::vector<std::string>(asked.begin(), asked.end())));
  result.commit();
}

}  // namespace

int optrace::device_generator_main(int count, char** values) {
  // Ends the generator when the command ends in any way.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::vector<std::string> arguments(values + 1, values + count);
  try {
    const bool forward = !arguments.empty() && arguments[0] == "forward";
    const DeviceFamily* const family =
        arguments.size() < 4 || (!forward && arguments[0] != "define")
            ? nullptr
            : device_family(arguments[1]);
    if (family == nullptr) {
      std::cerr << "usage: optrace-device-generator define|forward FAMILY FUNCTIONS OUTPUT "
                   "[ARGUMENT...]\n";
      return static_cast<int>(ExitStatus::usage);
    }
    std::vector<std::string> compiler_arguments = load_libclang();
    compiler_arguments.insert(compiler_arguments.end(), arguments.begin() + 4, arguments.end());
    generate(forward, *family, arguments[2], arguments[3], compiler_arguments);
    return static_cast<int>(ExitStatus::done);
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << ". " << error.remedy() << '\n';
    return static_cast<int>(ExitStatus::failed);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return static_cast<int>(ExitStatus::failed);
  }
}
