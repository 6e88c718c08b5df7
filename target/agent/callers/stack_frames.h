#pragma once

#include <cstdint>

#include "target/agent/callers/frame_rules.h"

namespace optrace::agent {

// The frames on the calling thread's stack, from the innermost one outwards. Nothing here takes a
// lock or allocates.

/// What a frame on the stack belongs to.
enum class FrameKind : std::uint32_t {
  outside,  // A module without probes.
  other,
  probed,
  loop,  // The evaluation loop, which has no probe.
};

/// What is known of a frame by its return address.
struct KnownFrame {
  FrameRule rule;
  FrameKind kind = FrameKind::other;
};

/// Frame of a function that waits for the call that returns to `return_address`.
struct Frame {
  std::uint64_t stack_pointer;  ///< The value after the call has returned.
  std::uint64_t frame_pointer;
  bool frame_pointer_known;
  std::uint64_t return_address;
};

/// Reads from the thread's stack.
inline std::uint64_t read_word(std::uint64_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr,clang-analyzer-core.NullDereference)
  return *reinterpret_cast<const std::uint64_t*>(address);
}

inline std::uint64_t hash_of(std::uint64_t address) {
  return (address * 0x9E37'79B9'7F4A'7C15ULL) >> 40;
}

/// Allocates the cache of frame rules. Returns false if memory can't be allocated.
bool make_frame_cache();

/// Returns the end of the thread's stack, or 0 if unknown.
std::uint64_t stack_end_above(std::uint64_t slot);

/// Returns what is known of the frame that a call with this return address returns to.
KnownFrame frame_at(std::uint64_t return_address);

/// `slot` is the address of the return address, `frame_pointer` the caller's rbp.
Frame frame_of_caller(std::uint64_t slot, std::uint64_t frame_pointer);

/// Returns the canonical frame address, or 0.
std::uint64_t address_of_frame(const Frame& frame, const FrameRule& rule, std::uint64_t end);

/// Replaces a frame by its caller's. `frame_address` is the canonical address of the former.
void leave_frame(Frame& frame, const FrameRule& rule, std::uint64_t frame_address,
                 std::uint64_t end);

}  // namespace optrace::agent
