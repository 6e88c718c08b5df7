#pragma once

#include <cstddef>

/// Loops over every byte or over many rounds do one of so many: code is twenty times slower with
/// AddressSanitizer. The programs without it do all.
#ifdef __SANITIZE_ADDRESS__
inline constexpr std::size_t kOneOf = 4;
#else
inline constexpr std::size_t kOneOf = 1;
#endif
