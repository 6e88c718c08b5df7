#include "report/compiled/generated_code.h"

#include <filesystem>
#include <iterator>

namespace optrace {
namespace {

constexpr std::string_view kOnlyKernel = "kernel";

std::string stem_of(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

}  // namespace

const GeneratedCode::Kernel* GeneratedCode::kernel_of(const std::string& library,
                                                      const std::string& function) const {
  for (const std::string& key : {library, stem_of(library)}) {
    const auto found = libraries_.find(key);
    if (found == libraries_.end()) continue;
    for (const Kernel& kernel : found->second)
      if (function == kOnlyKernel || function == kernel.name) return &kernel;
  }
  return nullptr;
}

const GeneratedCode::File* GeneratedCode::find(const std::string& file) const {
  const auto found = files_.find(file);
  return found == files_.end() ? nullptr : &found->second;
}

std::optional<Origin> GeneratedCode::origin_of(const std::string& file, std::uint32_t line) const {
  const File* const generated = find(file);
  if (generated == nullptr) return std::nullopt;
  const auto after = generated->calls.upper_bound(line);
  return after == generated->calls.begin() ? std::nullopt : std::prev(after)->second;
}

const GeneratedCode::Kernels& GeneratedCode::kernels_in(const std::string& file) const {
  static const Kernels kNoKernels;
  const File* const generated = find(file);
  return generated == nullptr ? kNoKernels : generated->kernels;
}

const std::vector<NotFused>& GeneratedCode::not_fused_in(const std::string& file) const {
  static const std::vector<NotFused> kNothing;
  const File* const generated = find(file);
  return generated == nullptr ? kNothing : generated->not_fused;
}

}  // namespace optrace
