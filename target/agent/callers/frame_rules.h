#pragma once

#include <cstdint>

namespace optrace::agent {

// Unwinding of one frame: the rule that a function's call frame information (.eh_frame) gives at
// the address where it waits for a call to return. This code runs in the middle of an arbitrary
// function, so it uses general registers only, takes no lock and allocates nothing. The only libc
// function that it calls is _dl_find_object, for a module loaded since the list was made; that
// function takes no lock either.

enum class FrameBase : std::uint8_t {
  unknown,        ///< No call frame information, or an unsupported form of it.
  stack_pointer,  ///< The CFA is rsp + offset, with rsp as it is after the call has returned.
  frame_pointer,  ///< The CFA is rbp + offset.
  frame_pointer_target,  ///< The CFA is the word at rbp + offset (realigned stack).
  outermost,             ///< The function has no caller; a thread begins here.
};

enum class SavedFramePointer : std::uint8_t {
  same,              ///< The caller's rbp is the current rbp.
  at_cfa,            ///< The caller's rbp is the word at CFA + offset.
  at_frame_pointer,  ///< The caller's rbp is the word at rbp + offset.
  unknown,
};

struct FrameRule {
  std::uint64_t function = 0;  ///< First address of the code that the entry (FDE) covers.
  std::int32_t base_offset = 0;
  std::int32_t saved_offset = 0;
  FrameBase base = FrameBase::unknown;
  SavedFramePointer saved = SavedFramePointer::unknown;
};

/// Finds the rule for the function that contains `address`. If there is none, `base` is unknown.
/// Returns false if no listed module contains the address; a later list may contain it.
bool find_frame_rule(std::uint64_t address, FrameRule& rule);

}  // namespace optrace::agent
