#include "src/choices/local_sources.h"

#include <array>
#include <string_view>
#include <system_error>

#include "indexer/sources/source_tree.h"
#include "indexer/sources/work_folder.h"
#include "platform/error.h"
#include "report/model/json_fields.h"

namespace optrace {
namespace {

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// Returns the source trees of a version that were indexed here, and the code generated for them.
std::vector<std::filesystem::path> indexed_trees(const std::string& version) {
  std::vector<std::filesystem::path> folders;
  for (const KeptWork& work : list_kept_work()) {
    try {
      if (open_source_tree(work.tree).version != version) continue;
    } catch (const Error&) {
      continue;  // No longer a PyTorch tree.
    }
    folders.push_back(work.tree);
    folders.push_back(work.path / "generated");
  }
  return folders;
}

}  // namespace

LocalSources::LocalSources(const IndexChoice& choice)
    : LocalSources(choice.torch ? choice.torch->folder : std::filesystem::path(),
                   std::string(choice.index.torch_version())) {}

LocalSources::LocalSources(const Report& report)
    : LocalSources(text_at(report.meta, "torch_folder"), report.source_version) {}

std::vector<std::filesystem::path> LocalSources::places_in_wheel(const std::string& file) const {
  if (torch_folder_.empty()) return {};
  const std::filesystem::path packages = torch_folder_.parent_path();
  const std::filesystem::path headers = torch_folder_ / "include";
  std::vector<std::filesystem::path> places;
  if (file.ends_with(".py")) places.push_back(packages / file);
  // The places in a wheel of files of a source or build tree.
  struct Copy {
    std::string_view in_source;
    std::filesystem::path in_wheel;
  };
  const auto copies = std::to_array<Copy>({
      {"aten/src/ATen/native/native_functions.yaml",
       packages / "torchgen/packaged/ATen/native/native_functions.yaml"},
      {"tools/autograd/derivatives.yaml", packages / "torchgen/packaged/autograd/derivatives.yaml"},
      {"build/aten/src/", headers},
      {"aten/src/", headers},
      {"torch/csrc/", headers / "torch/csrc"},
      {"c10/", headers / "c10"},
  });
  for (const Copy& copy : copies) {
    if (!file.starts_with(copy.in_source)) continue;
    const std::string rest = file.substr(copy.in_source.size());
    places.push_back(rest.empty() ? copy.in_wheel : copy.in_wheel / rest);
  }
  return places;
}

const std::vector<std::filesystem::path>& LocalSources::trees() const {
  if (!trees_) trees_ = indexed_trees(version_);
  return *trees_;
}

std::filesystem::path LocalSources::find(const std::string& file) const {
  if (file.empty() || file.starts_with('<')) return {};
  if (file.starts_with('/')) return is_file(file) ? std::filesystem::path(file) : "";
  for (const std::filesystem::path& place : places_in_wheel(file))
    if (is_file(place)) return place;
  for (const std::filesystem::path& tree : trees())
    if (is_file(tree / file)) return tree / file;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::absolute(file, error);
  return !error && file.ends_with(".py") && is_file(here) ? here : std::filesystem::path();
}

FileLinks::Find find_in(LocalSources sources) {
  return [sources = std::move(sources)](const std::string& file) { return sources.find(file); };
}

}  // namespace optrace
