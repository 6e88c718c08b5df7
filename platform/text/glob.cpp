#include "platform/text/glob.h"

#include <cstddef>

namespace optrace {
namespace {

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

bool takes_any(char wildcard, char c) {
  if (wildcard == '%') return c != ':';
  if (wildcard == '^') return is_upper(c) || (c >= '0' && c <= '9');
  return true;
}

// A wildcard of the pattern, and the part of the text that it has taken so far.
struct Wildcard {
  std::size_t behind = std::string_view::npos;  // Position after the wildcard, in the pattern.
  std::size_t end = 0;                          // End of the text that it has taken.
  char kind = '*';

  // Takes one more character. Returns false if it can't.
  bool grow(std::string_view text) {
    if (behind == std::string_view::npos || end == text.size() || !takes_any(kind, text[end]))
      return false;
    ++end;
    return true;
  }
};

// On a mismatch, the last wildcard takes one more character. If it is a narrow one that can't, the
// last `*` takes one more instead.
bool matches(std::string_view text, std::string_view pattern, bool narrow_wildcards) {
  Wildcard any;
  Wildcard narrow;
  std::size_t t = 0;
  std::size_t p = 0;
  while (true) {
    const char next = p < pattern.size() ? pattern[p] : '\0';
    if (next == '*') {
      any = {++p, t, next};
      narrow = {};
    } else if (narrow_wildcards && (next == '%' || next == '^')) {
      narrow = {++p, t, next};
    } else if (t < text.size() && p < pattern.size() &&
               (next == text[t] || (narrow_wildcards && next == '@' && is_upper(text[t])))) {
      ++t;
      ++p;
    } else if (t == text.size() && p == pattern.size()) {
      return true;
    } else if (narrow.grow(text)) {
      p = narrow.behind;
      t = narrow.end;
    } else if (any.grow(text)) {
      p = any.behind;
      t = any.end;
      narrow = {};
    } else {
      return false;
    }
  }
}

}  // namespace

bool matches_glob(std::string_view text, std::string_view pattern) {
  return matches(text, pattern, false);
}

bool matches_name_glob(std::string_view text, std::string_view pattern) {
  return matches(text, pattern, true);
}

}  // namespace optrace
