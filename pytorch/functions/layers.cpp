#include "pytorch/functions/layers.h"

#include <algorithm>
#include <array>

#include "platform/text/glob.h"
#include "pytorch/functions/function_rows.h"
#include "pytorch/functions/runtime_libraries.h"
#include "pytorch/functions/vendor_libraries.h"

namespace optrace {
namespace {

// Python functions that are left out: lookups that occur in every module's stack.
constexpr auto kFoldedPython = std::to_array<std::string_view>({
    "torch.nn.modules.module.Module.__getattr__",
    "importlib._bootstrap*",  // The import machinery that runs a module's code.
    "_optrace_target.*",      // What optrace itself replaces in the program.
    "_optrace_attached.*",
});

// Python functions that begin a compilation of torch.compile: Dynamo's callback for a frame
// (torch/_dynamo/convert_frame.py), and Inductor for a backward graph that is compiled when it is
// first needed (torch/_inductor/compile_fx.py).
constexpr auto kCompilerEntries = std::to_array<std::string_view>({
    "torch._dynamo.convert_frame.*",
    "torch._inductor.compile_fx.*",
});
// Functions of these modules that run what was compiled.
constexpr auto kNoCompilerEntries = std::to_array<std::string_view>({
    "torch._inductor.compile_fx.*.<locals>.run",
    "torch._inductor.compile_fx.*.<locals>.wrapper",
});

// Returns true for the Python functions through which torch.compile begins a compilation.
bool is_compiler_entry(std::string_view name) {
  const auto names = [name](std::string_view pattern) { return matches_name_glob(name, pattern); };
  return std::ranges::any_of(kCompilerEntries, names) &&
         std::ranges::none_of(kNoCompilerEntries, names) && !name.ends_with(".<module>");
}

}  // namespace

Classification classify(std::string_view name, std::string_view library) {
  if (is_hidden_library(library)) return {Layer::runtime, Visibility::hidden};
  if (const auto visibility = visibility_in_library_file(name, library))
    return {Layer::library, *visibility};
  for (const FunctionRow& row : function_rows())
    if (matches_name_glob(library, row.library) && matches_name_glob(name, row.name))
      return {row.layer, row.visibility};
  if (const auto visibility = visibility_of_library_call(name))
    return {Layer::library, *visibility};
  return {};
}

Classification classify_python(std::string_view name) {
  for (const std::string_view pattern : kFoldedPython)
    if (matches_name_glob(name, pattern)) return {Layer::python, Visibility::hidden};
  if (is_compiler_entry(name)) return {Layer::compiler, Visibility::always, true};
  // A module of PyTorch that is imported does nothing for the program.
  if (is_torch_module(name)) return {Layer::python, Visibility::always, true};
  // Standard library functions that torch calls matter only if they lead back to torch.
  return {Layer::python, name.starts_with("torch.") ? Visibility::always : Visibility::if_leading};
}

bool is_module_call(std::string_view name) {
  return matches_name_glob(name, "torch.nn.modules.module.Module._*call_impl");
}

bool is_torch_module(std::string_view name) {
  return name.starts_with("torch.") && name.ends_with(".<module>");
}

}  // namespace optrace
