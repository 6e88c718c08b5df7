#pragma once

#include <cstdint>

namespace optrace::agent {

// How a function's caller is found while the function waits for a call to return: what its call
// frame information (.eh_frame) says at one address. Everything here runs in the middle of
// somebody's function: general registers only, no lock, no memory. Of libc it calls _dl_find_object
// alone, for a module that was loaded just now; that takes no lock either.

enum class FrameBase : std::uint8_t {
  unknown,               ///< No call frame information, or a form of it that is not read.
  stack_pointer,         ///< The CFA is rsp + offset; rsp is what it is once the call has returned.
  frame_pointer,         ///< The CFA is rbp + offset.
  frame_pointer_target,  ///< The CFA is the word at rbp + offset: a realigned stack.
  outermost,             ///< The function has no caller: a thread begins here.
};

enum class SavedFramePointer : std::uint8_t {
  same,              ///< rbp is the caller's.
  at_cfa,            ///< The caller's rbp is the word at CFA + offset.
  at_frame_pointer,  ///< It is the word at rbp + offset.
  unknown,
};

struct FrameRule {
  std::uint64_t function = 0;  ///< The first address of the code that the rule's entry is about.
  std::int32_t base_offset = 0;
  std::int32_t saved_offset = 0;
  FrameBase base = FrameBase::unknown;
  SavedFramePointer saved = SavedFramePointer::unknown;
};

/// The rule for the function that holds `address`. Without one `base` is unknown.
/// Returns false where no listed module holds the address: a later list may.
bool find_frame_rule(std::uint64_t address, FrameRule& rule);

}  // namespace optrace::agent
