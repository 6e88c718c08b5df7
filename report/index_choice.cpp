#include "report/index_choice.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "platform/error.h"
#include "platform/installation.h"
#include "report/source_link.h"

namespace optrace {
namespace {

// How far apart two versions are: 2.6.0 and 2.7.1 by one in the second part first.
std::array<long, 3> distance(std::string_view left, std::string_view right) {
  const auto parts = [](std::string_view version) {
    std::array<long, 3> numbers{};
    for (long& number : numbers) {
      const auto [rest, error] =
          std::from_chars(version.data(), version.data() + version.size(), number);
      if (error != std::errc()) break;
      version.remove_prefix(static_cast<std::size_t>(rest - version.data()));
      if (!version.starts_with('.')) break;
      version.remove_prefix(1);
    }
    return numbers;
  };
  std::array<long, 3> a = parts(left);
  const std::array<long, 3> b = parts(right);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::abs(a[i] - b[i]);
  return a;
}

}  // namespace

std::vector<std::filesystem::path> index_folders() {
  std::vector<std::filesystem::path> folders;
  const char* const data_home = std::getenv("XDG_DATA_HOME");
  const char* const home = std::getenv("HOME");
  if (data_home != nullptr && *data_home == '/')
    folders.push_back(std::filesystem::path(data_home) / "optrace" / "indexes");
  else if (home != nullptr && *home == '/')
    folders.push_back(std::filesystem::path(home) / ".local/share/optrace/indexes");
  folders.push_back(data_folder() / "indexes");
  return folders;
}

std::optional<Index> choose_index(std::string_view torch_version, std::string_view git_version,
                                  const std::vector<std::filesystem::path>& folders) {
  std::optional<Index> best;
  for (const std::filesystem::path& folder : folders) {
    std::vector<std::filesystem::path> files;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error))
      if (entry->path().extension() == ".index") files.push_back(entry->path());
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path& file : files) {
      Index index = Index::open(file);
      if (is_exact_source(index, torch_version, git_version)) return index;
      if (!best || distance(index.torch_version(), torch_version) <
                       distance(best->torch_version(), torch_version))
        best.emplace(std::move(index));
    }
  }
  return best;
}

}  // namespace optrace
