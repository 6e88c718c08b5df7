#include "lookup/calls/op_words.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "lookup/calls/followed_calls.h"
#include "lookup/locate/locate_query.h"
#include "platform/text/ascii_text.h"
#include "pytorch/names/op_name.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

constexpr unsigned kVariantCost = 8;
constexpr unsigned kStrangerCost = 6;

// Words in names that stand for a variant of an op. A function whose name has a word that the op's
// name lacks is for unusual arguments.
constexpr auto kVariants = std::to_array<std::string_view>(
    {"transpose", "backward", "depthwise", "dilated", "complex", "sparse", "quantized", "nested",
     "legacy", "slow", "double", "_math", "_bias", "miopen", "vdot", "_conj", "nnpack", "choice",
     "overrideable"});

// Words in names that stand for another device.
constexpr auto kNotForCpu = std::to_array<std::string_view>({"cudnn", "cuda"});
constexpr auto kNotForOthers = std::to_array<std::string_view>({"mkldnn", "_cpu"});

// Words in the names of many ops. Two ops that share only such a word are not related.
constexpr auto kCommonWords = std::to_array<std::string_view>(
    {"out",    "forward",   "backward", "impl",       "index",   "native", "for",
     "from",   "use",       "cpu",      "cuda",       "cudnn",   "mkldnn", "miopen",
     "sparse", "quantized", "nested",   "functional", "inplace", "kernel", "stub",
     "tensor", "scalar",    "and",      "with",       "the",     "choice"});

constexpr std::size_t kMinStemLength = 3;  // Letters, as in `sum`, `max`, `rnn`.

// Arithmetic operators on tensors (ATen/TensorOperators.h), which only prepare numbers.
constexpr auto kOperators =
    std::to_array<std::string_view>({"2atpl", "2atmi", "2atml", "2atdv", "2atrm", "2ator"});

// Returns the words of a name that are not common, without a number of dimensions at their end:
// `scaled`, `dot`, `product`, `attention` for `_scaled_dot_product_attention`, `conv` for `conv2d`.
std::vector<std::string> stems_of(std::string_view name) {
  std::vector<std::string> stems;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('_'), name.size());
    std::string word(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
    if (word.size() > 2 && word.back() == 'd' && word[word.size() - 2] >= '1' &&
        word[word.size() - 2] <= '3')
      word.resize(word.size() - 2);
    if (std::ranges::find(kCommonWords, word) == kCommonWords.end() && !word.empty())
      stems.push_back(std::move(word));
  }
  return stems;
}

}  // namespace

OpWords::OpWords(std::string_view op) : op_(op), stems_(stems_of(split_op_name(op).base)) {}

bool OpWords::is_related(std::string_view name) const {
  for (const std::string& word : stems_of(name))
    for (const std::string& stem : stems_) {
      if (word == stem) return true;
      const std::size_t shorter = std::min(word.size(), stem.size());
      if (shorter >= kMinStemLength && (word.starts_with(stem) || stem.starts_with(word)))
        return true;
    }
  return false;
}

bool OpWords::is_related_op(std::string_view op) const {
  return is_related(split_op_name(op).base);
}

bool OpWords::is_related_function(std::string_view symbol) const {
  const std::vector<std::string> parts = symbol_components(symbol);
  return !parts.empty() && is_related(parts.back());
}

bool OpWords::are_in_kernel(std::string_view name) const {
  const std::size_t scope = name.substr(0, name.find('<')).rfind("::");
  const std::string function =
      lower(scope == std::string_view::npos ? name : name.substr(scope + 2));
  return std::ranges::any_of(stems_, [&](const std::string& stem) {
    return stem.size() >= kMinStemLength && function.find(stem) != std::string::npos;
  });
}

unsigned OpWords::variant_cost(std::string_view callee, std::string_view key) const {
  unsigned cost = 0;
  const std::string_view nested = nested_name(callee);
  if (std::ranges::any_of(kOperators,
                          [&](std::string_view start) { return nested.starts_with(start); }))
    cost += kStrangerCost;
  const auto add_words = [&](const auto& words) {
    for (const std::string_view word : words)
      if (callee.find(word) != std::string_view::npos && op_.find(word) == std::string::npos)
        cost += kVariantCost;
  };
  add_words(kVariants);
  // Symbols contain the namespaces of parameters, ops' names do not.
  if (!callee.starts_with("_Z")) {
    if (key == "CPU")
      add_words(kNotForCpu);
    else
      add_words(kNotForOthers);
  }
  return cost;
}

}  // namespace optrace
