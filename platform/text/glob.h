#pragma once

#include <string_view>

namespace optrace {

/// Returns true if all of `text` matches `pattern`, in which `*` matches any characters, also none,
/// and all others match themselves. This is the syntax of every pattern that a user writes.
bool matches_glob(std::string_view text, std::string_view pattern);

/// Same for the patterns in tables of C++ names, in which `%` also matches any characters except
/// `:`, `^` any capital letters and digits, and `@` one capital letter.
bool matches_name_glob(std::string_view text, std::string_view pattern);

}  // namespace optrace
