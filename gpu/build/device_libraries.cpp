#include "gpu/build/device_libraries.h"

#include <algorithm>
#include <system_error>

#include <fmt/core.h>
#include <generator_source.h>

#include "platform/elf/dynamic_symbols.h"
#include "platform/error.h"
#include "platform/files/installation.h"
#include "platform/files/whole_file.h"

namespace optrace {
namespace {

void add_libraries_in(const std::filesystem::path& folder, std::string_view starts,
                      std::vector<std::filesystem::path>& libraries) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name.starts_with(starts) && name.find(".so") != std::string::npos &&
        entry.is_regular_file(ignored))
      libraries.push_back(entry.path());
  }
}

/// Returns true if the functions satisfy an import of this version, as the dynamic linker has it:
/// an import of none takes any.
bool defines(const CudaFunctions::mapped_type& functions, const std::string& version,
             const std::string& name) {
  for (const auto& [its, names] : functions)
    if ((version.empty() || version == its) && names.contains(name)) return true;
  return false;
}

}  // namespace

std::vector<std::filesystem::path> files_of_torch(const std::filesystem::path& torch_folder) {
  std::vector<std::filesystem::path> libraries;
  add_libraries_in(torch_folder / "lib", "lib", libraries);
  add_libraries_in(torch_folder, "_C", libraries);
  std::ranges::sort(libraries);
  return libraries;
}

std::vector<DeviceLibrary> device_libraries(const std::vector<std::filesystem::path>& libraries) {
  std::map<std::string, DeviceLibrary> found;
  const auto add = [&](const DeviceFamily& family, const std::string& soname) -> DeviceLibrary& {
    return found.emplace(soname, DeviceLibrary{&family, soname, {}}).first->second;
  };
  std::set<std::string> unversioned;
  for (const auto& path : libraries) {
    const DynamicImports imports = read_dynamic_imports(path);
    for (const std::string& soname : imports.needed)
      if (const DeviceFamily* const family = family_of_library(soname)) add(*family, soname);
    for (const DynamicImport& symbol : imports.symbols) {
      if (symbol.weak) continue;
      if (const DeviceFamily* const family = family_of_library(symbol.library))
        add(*family, symbol.library).functions[symbol.version].insert(symbol.name);
      else if (symbol.version.empty())
        unversioned.insert(symbol.name);
    }
  }
  for (const DeviceFamily& family : device_families())
    if (!family.always.empty()) add(family, std::string(family.always));
  for (const std::string& name : unversioned) {
    const DeviceFamily* const family = family_of_function(name);
    if (family == nullptr) continue;
    for (auto& [soname, library] : found)
      if (library.family == family) library.functions[""].insert(name);
  }
  std::vector<DeviceLibrary> result;
  result.reserve(found.size());
  for (auto& [soname, library] : found) result.push_back(std::move(library));
  return result;
}

const std::vector<DeviceLibrary>& LibrariesOfTorch::all() {
  if (!libraries_) {
    std::vector<std::filesystem::path> files;
    for (const auto& torch : torches_)
      for (auto& file : files_of_torch(torch)) files.push_back(std::move(file));
    libraries_ = device_libraries(files);
  }
  return *libraries_;
}

std::string LibrariesOfTorch::misfit(const Prebuilt& prebuilt, std::string_view cuda,
                                     const std::function<bool(const DeviceLibrary&)>& concerns) {
  if (cuda_major(prebuilt.cuda) != cuda_major(cuda))
    return fmt::format("is for CUDA {}", cuda_major(prebuilt.cuda));
  try {
    for (const DeviceLibrary& library : all()) {
      if (!concerns(library)) continue;
      const auto known = prebuilt.functions.find(library.soname);
      if (known == prebuilt.functions.end()) return fmt::format("has no {}", library.soname);
      for (const auto& [version, functions] : library.functions)
        for (const std::string& function : functions)
          if (!defines(known->second, version, function)) return fmt::format("lacks {}", function);
    }
  } catch (const Error& error) {
    return fmt::format("can't be compared ({})", error.what());
  }
  return {};
}

std::string_view cuda_major(std::string_view cuda) {
  return cuda.substr(0, cuda.find('.'));
}

std::string version_script(const DeviceLibrary& library) {
  // The version of all other functions of the library: the one that is named like the file.
  std::string main;
  for (const auto& [version, functions] : library.functions)
    if (!version.empty() && (main.empty() || version == library.soname)) main = version;
  std::string text = main.empty() ? "{\n  global:\n" : fmt::format("{} {{\n  global:\n", main);
  for (const std::string_view prefix : library.family->prefixes)
    if (!prefix.empty()) text += fmt::format("    {}*;\n", prefix);
  for (const auto& [version, functions] : library.functions)
    if (version == main || version.empty())
      for (const std::string& name : functions) text += fmt::format("    {};\n", name);
  text += "  local: *;\n};\n";
  for (const auto& [version, functions] : library.functions) {
    if (version == main || version.empty()) continue;
    text += fmt::format("{} {{\n  global:\n", version);
    for (const std::string& name : functions) text += fmt::format("    {};\n", name);
    text += "};\n";
  }
  return text;
}

std::filesystem::path device_generator() {
  return library_folder() / "optrace-device-generator";
}

std::string device_generator_source() {
  return kDeviceGeneratorSource;
}

BuildStep generator_step(const std::string& kind, const DeviceLibrary& library,
                         const std::filesystem::path& folder, const std::filesystem::path& source,
                         const std::vector<std::string>& includes) {
  const std::string name(library.family->name);
  const auto list = folder / (name + ".functions");
  std::string functions;
  for (const auto& [version, names] : library.functions)
    for (const std::string& function : names) functions += function + "\n";
  write_file(list, functions);
  BuildStep step{device_generator().string(), kind, name, list.string(), source.string()};
  step.insert(step.end(), includes.begin(), includes.end());
  return step;
}

}  // namespace optrace
