#pragma once

#include <cstddef>

/// Whether AddressSanitizer is part of the program.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Loops over every byte or over many rounds do one of so many: code is twenty times slower with
/// AddressSanitizer. The programs without it do all.
inline constexpr std::size_t kOneOf = kSanitized ? 4 : 1;
