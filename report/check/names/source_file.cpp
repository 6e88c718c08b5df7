#include "report/check/names/source_file.h"

#include <cstdint>
#include <system_error>

namespace optrace {

std::ifstream open_source(const std::filesystem::path& file) {
  constexpr std::uintmax_t kMaxSize = 16 << 20;  // Bytes.
  std::error_code error;
  std::ifstream source;
  if (std::filesystem::is_regular_file(file, error) &&
      std::filesystem::file_size(file, error) <= kMaxSize && !error)
    source.open(file, std::ios::binary);
  else
    source.setstate(std::ios::failbit);
  return source;
}

}  // namespace optrace
