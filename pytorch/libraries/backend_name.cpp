#include "pytorch/libraries/backend_name.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "platform/text/ascii_text.h"

namespace optrace {
namespace {

/// The spellings of oneDNN: its name, its former name, its namespace and its C++ interface.
const std::vector<std::string>& spellings_of_onednn() {
  static const std::vector<std::string> kSpellings{"onednn", "mkldnn", "dnnl", "ideep"};
  return kSpellings;
}

bool is_letter(char letter) {
  return std::isalpha(static_cast<unsigned char>(letter)) != 0;
}

bool is_upper(char letter) {
  return std::isupper(static_cast<unsigned char>(letter)) != 0;
}

/// Returns true if a word of a name ends before `at` and another one begins there: at the `C` in
/// `setCuDNN`, the `_` in `cudnn_enabled` and the `E` in `CuDNNEnabled`.
bool is_boundary(std::string_view name, std::size_t at) {
  if (at == 0 || at == name.size() || !is_letter(name[at - 1]) || !is_letter(name[at])) return true;
  if (!is_upper(name[at])) return false;
  const bool before_lower =
      at + 1 < name.size() && is_letter(name[at + 1]) && !is_upper(name[at + 1]);
  return !is_upper(name[at - 1]) || before_lower;
}

}  // namespace

BackendName::BackendName(std::string_view name) : text_(lower(name)), words_{text_} {
  if (std::ranges::find(spellings_of_onednn(), text_) != spellings_of_onednn().end())
    words_ = spellings_of_onednn();
}

bool BackendName::is_in(std::string_view name) const {
  const std::string lower_name = lower(name);
  return std::ranges::any_of(words_, [&](const std::string& word) {
    for (std::size_t at = lower_name.find(word); at != std::string::npos;
         at = lower_name.find(word, at + 1))
      if (is_boundary(name, at) && is_boundary(name, at + word.size())) return true;
    return false;
  });
}

const std::vector<std::string_view>& known_backends() {
  static const std::vector<std::string_view> kBackends{
      "cublas",    "cublaslt", "cudnn",  "cufft",   "cusolver", "cusparse", "cutlass",
      "efficient", "fbgemm",   "flash",  "magma",   "math",     "miopen",   "mkl",
      "mkldnn",    "mps",      "nnpack", "qnnpack", "vulkan",   "xnnpack",  "xpu"};
  return kBackends;
}

}  // namespace optrace
