#include "indexer/store/index_catalogue.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "indexer/store/packed_index.h"
#include "platform/error.h"
#include "platform/files/installation.h"

namespace optrace {
namespace {

constexpr const char* kExtension = ".index";
constexpr const char* kProjectPrefix = "project-";

bool is_project(const std::filesystem::path& path) {
  return path.filename().string().starts_with(kProjectPrefix);
}

std::filesystem::path environment_folder(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the numbers of `2.6.0+cu124`; missing ones are 0.
std::array<std::int64_t, 3> numbers_of(std::string_view version) {
  std::array<std::int64_t, 3> numbers{};
  const char* at = version.data();
  const char* const end = at + version.size();
  for (auto& number : numbers) {
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc() || stop == end || *stop != '.') break;
    at = stop + 1;
  }
  return numbers;
}

// Returns the distance of two versions. One minor release counts more than any number of patch
// releases.
std::int64_t distance(std::string_view left, std::string_view right) {
  constexpr std::array<std::int64_t, 3> kWeights = {1000000, 1000, 1};
  const auto one = numbers_of(left);
  const auto other = numbers_of(right);
  std::int64_t sum = 0;
  for (std::size_t part = 0; part < one.size(); ++part)
    sum += kWeights.at(part) * std::min<std::int64_t>(std::abs(one.at(part) - other.at(part)), 999);
  return sum;
}

// Returns the version in the file name `torch-2.6.0.index`.
std::string named_version(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view kPrefix = "torch-";
  return name.starts_with(kPrefix)
             ? name.substr(kPrefix.size(), name.find(kExtension) - kPrefix.size())
             : "";
}

void list_folder(const std::filesystem::path& folder, bool own, bool projects,
                 std::vector<CataloguedIndex>& found) {
  const auto first = static_cast<std::ptrdiff_t>(found.size());
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::filesystem::path unpacked =
        is_packed_index(at->path()) ? at->path().stem() : at->path();
    if (unpacked.extension() == kExtension && is_project(at->path()) == projects)
      found.push_back({at->path(), own});
  }
  std::sort(found.begin() + first, found.end(),
            [](const auto& left, const auto& right) { return left.path < right.path; });
}

}  // namespace

std::filesystem::path own_index_folder() {
  if (const auto folder = environment_folder("OPTRACE_INDEX_DIR"); !folder.empty()) return folder;
  if (const auto folder = environment_folder("XDG_DATA_HOME"); folder.is_absolute())
    return folder / "optrace/indexes";
  const auto home = environment_folder("HOME");
  return home.empty() ? home : home / ".local/share/optrace/indexes";
}

namespace {

std::filesystem::path made_own_folder() {
  const std::filesystem::path folder = own_index_folder();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (folder.empty() || !std::filesystem::is_directory(folder, error)) {
    throw Error(ExitStatus::usage,
                folder.empty()
                    ? "there is no folder for indexes: HOME is not set"
                    : fmt::format("the folder for indexes, {}, can't be created", folder.string()),
                "Set OPTRACE_INDEX_DIR to a folder that you can write to, or name a file with -o.");
  }
  return folder;
}

void open_or_warn(const CataloguedIndex& candidate, std::vector<std::string>* warnings,
                  const std::function<void(Index)>& take) {
  try {
    take(candidate.open());
  } catch (const Error& error) {
    if (warnings != nullptr)
      warnings->push_back(fmt::format("{} {}", error.what(), error.remedy()));
  }
}

}  // namespace

std::filesystem::path own_index_path(std::string_view torch_version) {
  return made_own_folder() / fmt::format("torch-{}{}", torch_version, kExtension);
}

std::filesystem::path own_project_path(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
  if (name.empty() || name.find_first_not_of(kAllowed) != std::string_view::npos ||
      name.starts_with('.')) {
    throw Error(ExitStatus::usage, fmt::format("'{}' is not a valid name of a project", name),
                "Use letters, digits, '_', '-' and dots: --name my_extension.");
  }
  return made_own_folder() / fmt::format("{}{}{}", kProjectPrefix, name, kExtension);
}

Index CataloguedIndex::open() const {
  return is_packed_index(path) ? open_packed_index(path) : Index::open(path);
}

std::vector<CataloguedIndex> list_indexes() {
  std::vector<CataloguedIndex> found;
  if (const auto own = own_index_folder(); !own.empty()) list_folder(own, true, false, found);
  list_folder(data_folder() / "indexes", false, false, found);
  return found;
}

std::optional<Index> find_index(std::string_view torch_version, std::string_view git_version,
                                std::vector<std::string>* warnings) {
  using Rank = std::tuple<std::int64_t, int, bool>;  // The lowest rank is the best.
  std::optional<Index> best;
  Rank best_rank;
  std::vector<CataloguedIndex> candidates = list_indexes();
  const auto named_distance = [&](const CataloguedIndex& candidate) {
    return distance(named_version(candidate.path), torch_version);
  };
  std::ranges::stable_sort(candidates, {}, named_distance);
  for (const CataloguedIndex& candidate : candidates) {
    // One that comes with optrace is of the version in its name, and may have to be decompressed.
    if (best && !candidate.own && named_distance(candidate) > std::get<0>(best_rank)) continue;
    open_or_warn(candidate, warnings, [&](Index index) {
      const int other_commit = index.git_version().empty() || git_version.empty() ? 1
                               : index.git_version() == git_version               ? 0
                                                                                  : 2;
      const Rank rank{distance(index.torch_version(), torch_version), other_commit,
                      !index.note("on_demand").empty()};
      if (!best || rank < best_rank) {
        best = std::move(index);
        best_rank = rank;
      }
    });
  }
  return best;
}

std::optional<Index> find_base_index(std::string_view torch_version) {
  std::optional<Index> best;
  for (const auto& candidate : list_indexes()) {
    open_or_warn(candidate, nullptr, [&](Index index) {
      if (!index.note("made_from").empty() || !index.note("on_demand").empty() ||
          !index.note("partial").empty() || !index.has_anchors())
        return;
      if (!best || distance(index.torch_version(), torch_version) <
                       distance(best->torch_version(), torch_version))
        best = std::move(index);
    });
  }
  return best;
}

std::vector<CataloguedIndex> list_project_indexes() {
  std::vector<CataloguedIndex> found;
  if (const auto own = own_index_folder(); !own.empty()) list_folder(own, true, true, found);
  return found;
}

std::vector<Index> find_project_indexes(std::vector<std::string>* warnings) {
  std::vector<Index> found;
  for (const auto& candidate : list_project_indexes())
    open_or_warn(candidate, warnings, [&](Index index) { found.push_back(std::move(index)); });
  return found;
}

}  // namespace optrace
