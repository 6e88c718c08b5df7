#include "platform/whole_file.h"

#include <fstream>
#include <iterator>

#include "platform/output_file.h"

namespace optrace {

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) return std::nullopt;
  return content;
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  OutputFile file(path);
  file.write(content);
  file.commit();
}

}  // namespace optrace
