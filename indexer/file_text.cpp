#include "indexer/file_text.h"

#include <fstream>
#include <sstream>

namespace optrace {

std::string file_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

}  // namespace optrace
