#include "indexer/catalogue/code_generation.h"

#include "pytorch/source/source_files.h"

namespace optrace {

void generate_code(const SourceTree& tree, const PythonInstallation& python,
                   const std::filesystem::path& folder) {
  const std::filesystem::path aten = folder / kBuiltATen;
  const std::filesystem::path shims = folder / kGeneratedShims;
  std::filesystem::create_directories(aten);
  std::filesystem::create_directories(shims);
  // All install folders are passed because the defaults of some are in the source tree.
  // --update-aoti-c-shim is needed because torchgen otherwise compares the C shims with a copy
  // beside its output.
  run_python(
      python.python,
      {"-m", "torchgen.gen", "--source-path", std::string(kATen), "--install-dir", aten.string(),
       "--aoti-install-dir", shims.string(), "--update-aoti-c-shim", "--per-operator-headers"},
      tree.folder, "generating the ATen code with torchgen");
  run_python(python.python,
             {"-m", "tools.setup_helpers.generate_code", "--gen-dir", folder.string(),
              "--native-functions-path", std::string(kOpsFile), "--tags-path",
              std::string(kTagsFile), "--gen-lazy-ts-backend", "--per-operator-headers"},
             tree.folder, "generating the autograd code and the Python bindings");
}

}  // namespace optrace
