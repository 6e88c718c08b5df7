#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include "pytorch/symbols/symbol_key.h"

namespace optrace {
namespace {

// Parses `_GLOBAL__N__21739cd4_20_layer_norm_kernel_cu_9c5ada8a`: a hash, the length of the file
// name and the file name.
std::string file_in_anonymous_namespace(std::string_view mangled) {
  constexpr std::string_view kStart = "_GLOBAL__N__";
  constexpr std::string_view kEnding = "_cu";
  const std::size_t start = mangled.find(kStart);
  if (start == std::string_view::npos) return {};
  std::string_view name = mangled.substr(start + kStart.size());
  name.remove_prefix(std::min(name.find('_'), name.size()));
  if (name.empty()) return {};
  name.remove_prefix(1);
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), length);
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  if (error != std::errc() || !name.starts_with('_') || length >= name.size()) return {};
  name = name.substr(1, length);
  if (!name.ends_with(kEnding) || name.size() == kEnding.size()) return {};
  return std::string(name.substr(0, name.size() - kEnding.size())) + ".cu";
}

// Parses `tmpxft_00009194_00000000-6_layer_norm_kernel.compute_90.cudafe1.cpp`.
std::string file_of_nvcc(std::string_view stt_file) {
  if (!stt_file.starts_with("tmpxft_") || !stt_file.ends_with(".cudafe1.cpp")) return {};
  const std::size_t number = stt_file.find('-');
  const std::size_t start = stt_file.find('_', std::min(number, stt_file.size()));
  const std::size_t end = std::min(stt_file.rfind(".compute_"), stt_file.rfind(".cudafe1.cpp"));
  if (start == std::string_view::npos || start + 1 >= end) return {};
  return std::string(stt_file.substr(start + 1, end - start - 1)) + ".cu";
}

}  // namespace

std::string source_file_of(std::string_view mangled, std::string_view stt_file) {
  if (std::string file = file_of_nvcc(stt_file); !file.empty()) return file;
  if (!stt_file.empty()) return std::string(stt_file);
  return file_in_anonymous_namespace(mangled);
}

}  // namespace optrace
