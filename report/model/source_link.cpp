#include "report/model/source_link.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace optrace {
namespace {

constexpr std::string_view kRepository = "https://github.com/pytorch/pytorch/blob";

bool is_commit(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_release(std::string_view version) {
  return !version.empty() && version.find_first_not_of("0123456789.") == std::string_view::npos;
}

// What PyTorch's build writes: in its build folder, or into the tree.
constexpr auto kGenerated = std::to_array<std::string_view>({
    "build/",
    "aten/src/ATen/ops/",
    "aten/src/ATen/core/TensorBody.h",
    "torch/csrc/autograd/generated/",
    "torch/csrc/lazy/generated/",
    "torch/csrc/inductor/aoti_torch/generated/",
    "torch/version.py",
});

}  // namespace

SourceLink::SourceLink(std::string_view git_version, std::string_view torch_version) {
  const std::string_view release = without_local_version(torch_version);
  if (is_commit(git_version))
    revision_ = git_version;
  else if (is_release(release))
    revision_ = fmt::format("v{}", release);
}

std::string SourceLink::link(std::string_view file, std::uint32_t line) const {
  if (revision_.empty() || file.empty() || file.starts_with('/')) return {};
  if (is_generated_source(file) || file.starts_with("third_party/")) return {};
  // Nothing but what such a path is made of gets into a link.
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+").find(c) != std::string_view::npos;
  };
  if (!std::all_of(file.begin(), file.end(), is_plain)) return {};
  return fmt::format("{}/{}/{}#L{}", kRepository, revision_, file, line);
}

std::string SourceLink::of_native(std::string_view file, std::uint32_t line) const {
  return link(file, line);
}

std::string SourceLink::of_python(std::string_view file, std::uint32_t line) const {
  return file.starts_with("torch/") ? link(file, line) : std::string();
}

bool is_generated_source(std::string_view file) {
  return std::any_of(kGenerated.begin(), kGenerated.end(),
                     [&](std::string_view prefix) { return file.starts_with(prefix); });
}

std::string_view without_local_version(std::string_view torch_version) {
  return torch_version.substr(0, torch_version.find('+'));
}

bool is_exact_source(const Index& index, std::string_view torch_version,
                     std::string_view git_version) {
  if (is_commit(index.git_version()) && is_commit(git_version))
    return index.git_version() == git_version;
  return !index.torch_version().empty() &&
         index.torch_version() == without_local_version(torch_version);
}

std::string relative_to_torch(std::string_view file, std::string_view torch_folder) {
  const std::size_t slash = torch_folder.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return std::string(file);
  const std::string_view parent = torch_folder.substr(0, slash + 1);
  return std::string(file.starts_with(parent) ? file.substr(parent.size()) : file);
}

}  // namespace optrace
