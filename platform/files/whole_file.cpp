#include "platform/files/whole_file.h"

#include <fstream>
#include <ios>
#include <iterator>

#include "platform/error.h"
#include "platform/files/output_file.h"

namespace optrace {

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  // The iterator bypasses the stream, so that an error while reading throws: a folder opens like a
  // file, and a file of /proc opens for a thread that ends before it is read.
  try {
    return std::string{std::istreambuf_iterator<char>(file), {}};
  } catch (const std::ios_base::failure&) {
    return std::nullopt;
  }
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  OutputFile file(path);
  file.write(content);
  file.commit();
}

bool try_write_file(const std::filesystem::path& path, std::string_view content) {
  try {
    write_file(path, content);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace optrace
