#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// A backend of PyTorch's ops, recognised by its name as a word in names of ops, functions,
/// enumerators and libraries: `cudnn` is in `aten::cudnn_convolution`, `userEnabledCuDNN` and
/// `ConvBackend::CudnnTranspose`, and `nnpack` is not in `xnnpack`.
class BackendName {
 public:
  /// `name` is a known backend or any other word, in any case: `cudnn`, `mkldnn`, `flash`.
  explicit BackendName(std::string_view name);

  const std::string& text() const { return text_; }

  /// Returns true if a word of a name is the backend's. The name is not mangled.
  bool is_in(std::string_view name) const;

 private:
  std::string text_;                ///< In lower case.
  std::vector<std::string> words_;  ///< Its spellings, in lower case.
};

/// Returns the backends that people ask about, for messages and completion.
const std::vector<std::string_view>& known_backends();

}  // namespace optrace
