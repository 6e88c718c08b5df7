#include "indexer/catalogue/op_catalogue.h"

#include "indexer/sources/python_installation.h"
#include "platform/files/installation.h"

namespace optrace {

void write_ops(const std::filesystem::path& folder, const std::filesystem::path& python,
               const std::filesystem::path& output) {
  run_python(python,
             {(data_folder() / "catalogue/ops.py").string(), folder.string(), output.string()},
             folder, "reading native_functions.yaml and derivatives.yaml");
}

}  // namespace optrace
