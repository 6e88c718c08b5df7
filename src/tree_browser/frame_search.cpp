#include "src/tree_browser/frame_search.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>
#include <strings.h>

#include "platform/error.h"
#include "platform/text/ascii_text.h"
#include "platform/text/printable_text.h"

namespace optrace {
namespace {

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

}  // namespace

void FrameSearch::Free::operator()(regex_t* compiled) const {
  ::regfree(compiled);
  delete compiled;  // NOLINT(cppcoreguidelines-owning-memory): it owns what it frees.
}

FrameSearch::FrameSearch(std::string pattern, bool regex)
    : pattern_(std::move(pattern)), any_case_(std::ranges::none_of(pattern_, is_upper)) {
  if (!regex) return;
  auto compiled = std::make_unique<regex_t>();
  const int flags = REG_EXTENDED | REG_NOSUB | (any_case_ ? REG_ICASE : 0);
  if (const int error = ::regcomp(compiled.get(), pattern_.c_str(), flags); error != 0) {
    std::array<char, 128> reason{};
    ::regerror(error, compiled.get(), reason.data(), reason.size());
    throw Error(
        ExitStatus::usage,
        fmt::format("'{}' is not a regular expression: {}", printable(pattern_), reason.data()),
        "Give an extended one, such as conv[0-9]+d.");
  }
  compiled_.reset(compiled.release());
}

bool FrameSearch::matches(const std::string& text) const {
  if (compiled_) return ::regexec(compiled_.get(), text.c_str(), 0, nullptr, 0) == 0;
  return !std::ranges::search(text, pattern_,
                              [this](char left, char right) {
                                return any_case_ ? lower(left) == right : left == right;
                              })
              .empty() ||
         pattern_.empty();
}

}  // namespace optrace
