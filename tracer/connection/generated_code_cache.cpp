#include "tracer/connection/generated_code_cache.h"

#include <system_error>

#include "platform/files/cache_folders.h"
#include "platform/files/private_folder.h"

namespace optrace {

std::filesystem::path copy_of_generated_file(const std::filesystem::path& file) {
  const std::filesystem::path copy =
      cache_subfolder(cache_folders::kGeneratedCode) / file.filename();
  std::error_code ignored;
  return std::filesystem::is_regular_file(copy, ignored) ? copy : std::filesystem::path();
}

}  // namespace optrace
