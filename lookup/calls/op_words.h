#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// The significant words of an op's name, by which functions and ops that are related to it are
/// recognised: `scaled`, `dot`, `product`, `attention`.
class OpWords {
 public:
  /// `op`: `aten::_scaled_dot_product_attention`.
  explicit OpWords(std::string_view op);

  /// Returns true if a word of the name, without namespaces, is one of the op's, or one of the two
  /// begins with the other (`convolution` and `conv`).
  bool is_related(std::string_view name) const;

  /// Same for another op's name: `aten::convolution.out`.
  bool is_related_op(std::string_view op) const;

  /// Same for the unqualified name of a function.
  bool is_related_function(std::string_view symbol) const;

  /// Returns true if a kernel is named after the op, in any spelling: LayerNormForwardCUDAKernel.
  bool are_in_kernel(std::string_view name) const;

  /// Returns the cost of a call of `callee`, a symbol or an op's name, for each word in it that the
  /// op's name lacks and that stands for a variant of an op (`transpose`) or for another device
  /// than `key`'s.
  unsigned variant_cost(std::string_view callee, std::string_view key) const;

 private:
  std::string op_;
  std::vector<std::string> stems_;
};

}  // namespace optrace
