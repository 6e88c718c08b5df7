#include "src/options/tensor_options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/text/ascii_text.h"
#include "platform/text/printable_text.h"
#include "pytorch/names/python_names.h"

namespace optrace {
namespace {

constexpr std::size_t kShown = 100;  // Bytes of the text in a message.

/// Splits `text` at its first '=' into the name of a tensor, if there is one, and the value.
std::pair<std::string, std::string_view> tensor_and_value(std::string_view text) {
  const std::size_t end = text.find('=');
  if (end == std::string_view::npos) return {std::string(), text};
  return {std::string(text.substr(0, end)), text.substr(end + 1)};
}

bool is_identifier(std::string_view text) {
  constexpr std::size_t kMaxLength = 100;
  return !text.empty() && text.size() <= kMaxLength &&
         std::ranges::all_of(text, is_word_character) &&
         std::isdigit(static_cast<unsigned char>(text.front())) == 0;
}

}  // namespace

TensorShape parse_shape(const std::string& text) {
  const auto refuse = [&](std::string_view why) {
    return Error(ExitStatus::usage,
                 fmt::format("--shape: '{}' {}", printable_start(text, kShown), why),
                 "Write sizes with x between them, 4x3x8x8, for the first tensor, or "
                 "weight=8x3x3x3 for the tensor weight; `scalar` has no dimensions.");
  };
  constexpr std::size_t kMaxDimensions = 64;  // A tensor can't have more.
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;
  auto [tensor, sizes] = tensor_and_value(text);
  if (text.find('=') != std::string::npos && !is_identifier(tensor))
    throw refuse("has no name of a tensor");
  TensorShape shape{std::move(tensor), {}};
  if (sizes == "scalar") return shape;
  std::int64_t elements = 1;
  for (bool more = true; more;) {
    const std::size_t end = std::min(sizes.find('x'), sizes.size());
    std::int64_t size = -1;
    const std::string_view digits = sizes.substr(0, end);
    const auto [rest, problem] =
        std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (problem != std::errc() || rest != digits.end() || size < 0) throw refuse("is not a shape");
    if (size > kMaxElements || (size > 0 && elements > kMaxElements / size))
      throw refuse("has too many elements");
    elements *= std::max<std::int64_t>(size, 1);
    shape.sizes.push_back(size);
    more = end < sizes.size();
    sizes.remove_prefix(more ? end + 1 : end);
  }
  if (shape.sizes.size() > kMaxDimensions) throw refuse("has too many dimensions");
  return shape;
}

TensorType parse_dtype(const std::string& text) {
  auto [tensor, dtype] = tensor_and_value(text);
  dtype = without_torch(dtype);
  if ((text.find('=') != std::string::npos && !is_identifier(tensor)) || !is_identifier(dtype)) {
    throw Error(ExitStatus::usage,
                fmt::format("--dtype: '{}' is not a dtype", printable_start(text, kShown)),
                "Give a dtype of PyTorch: float16 for all floating-point tensors, or "
                "weight=float16 for the tensor weight.");
  }
  return {std::move(tensor), std::string(dtype)};
}

}  // namespace optrace
