#pragma once

// The probe plan: one file per module, written by the command and mapped by the agent. All
// instruction decoding is done when the plan is made, so the agent needs no decoder. For each
// probe, the plan contains position-independent code for the displaced instructions, including the
// jump back, and a list of fixups to apply once the slot's address is known.
//
//   PlanHeader | PlanProbe[probe_count] | PlanFixup[fixup_count] | code bytes[code_size]
//
// Little-endian, naturally aligned. There is one version number for the whole format: reader and
// writer are built together, and a plan of another version is made again, never converted.

#include <cstdint>

namespace optrace::plan {

constexpr char kMagic[8] = {'O', 'P', 'T', 'P', 'L', 'A', 'N', '\0'};
constexpr std::uint32_t kVersion = 6;
constexpr std::uint32_t kMaxBuildIdLength = 32;  // In bytes; a SHA-1 build-id has 20.

// A piece of a function's code, as linked. `first` and `last` are 0 if there is none.
struct Piece {
  std::uint64_t first;
  std::uint64_t last;  // After its last byte.
};
constexpr std::uint32_t kMaxLoopPieces = 4;

struct Header {
  char magic[8];
  std::uint32_t version;
  // 0: the module has no build-id and is identified by its path and size only.
  std::uint32_t build_id_size;
  std::uint8_t build_id[kMaxBuildIdLength];
  std::uint32_t probe_count;
  std::uint32_t fixup_count;
  std::uint32_t code_size;
  // Length of the module's path, which follows the code bytes, not null-terminated.
  std::uint32_t path_size;
  // Address, as linked, of a pthread_mutex_t of the module that no thread may hold while the
  // process forks; 0: none.
  std::uint64_t fork_lock;
  // The code of CPython's evaluation loop, if the module contains it: the function and its
  // split-off parts. It has no probe, but the agent recognizes its frames.
  Piece evaluation_loop[kMaxLoopPieces];
  std::uint64_t checksum;  // XXH3_64bits of everything after the header.
};

// The kinds of patch that are allowed at a function's entry.
enum class Patch : std::uint8_t {
  // int3 only: the function is shorter than a jump, or a branch targets an address after its first
  // byte.
  trap_only = 0,
  jump = 1,  // A 5-byte jump (or int3).
};

// What a probe records.
enum class ProbeKind : std::uint8_t {
  // That a function is entered; the probe is at the function's first instruction.
  entry = 0,
  entry_with_arguments = 1,  // Also its first two integer arguments (kArguments).
  // What a call has returned (kReturnedValue); the probe is at the instruction after the call, in
  // the code of the caller. The number of bytes that the value has is one more than the distance
  // from this enumerator.
  returned = 2,
  returned_pointer = 10,  // The same for a pointer: all of rax, of which only null matters.
  last = returned_pointer,
};

constexpr bool is_return(ProbeKind kind) {
  return kind >= ProbeKind::returned;
}
// Returns the kind for a value of 1 to 8 bytes that is no pointer.
constexpr ProbeKind return_kind(std::uint32_t bytes) {
  return static_cast<ProbeKind>(static_cast<std::uint32_t>(ProbeKind::returned) + bytes - 1);
}
constexpr std::uint32_t bytes_returned(ProbeKind kind) {
  if (kind == ProbeKind::returned_pointer) return sizeof(std::uint64_t);
  return static_cast<std::uint32_t>(kind) - static_cast<std::uint32_t>(ProbeKind::returned) + 1;
}

struct Probe {
  std::uint64_t address;  // Of the patched instruction, as linked.
  // Offset in the code bytes of the displaced instructions and the jump back.
  std::uint32_t code_offset;
  std::uint32_t first_fixup;
  std::uint16_t code_size;
  std::uint16_t fixup_count;
  // Number of original bytes that the code replaces; at least 5 for a jump.
  std::uint8_t displaced;
  Patch patch;
  // Number of valid bytes in `original`, which the agent compares with the bytes at `address`.
  std::uint8_t original_size;
  ProbeKind kind;
  std::uint8_t original[8];
};

enum class FixupKind : std::uint8_t {
  relative32 = 0,  // *(int32*)(slot + offset) = target - (slot + offset + 4) - addend
  absolute64 = 1,  // *(uint64*)(slot + offset) = target
};

struct Fixup {
  std::uint64_t target;  // As linked; the agent adds the module's load bias.
  std::uint16_t offset;  // Within the probe's code.
  FixupKind kind;
  // Number of instruction bytes after the 32-bit displacement (an immediate).
  std::uint8_t addend;
  std::uint32_t reserved;
};

static_assert(sizeof(Header) == 144 && sizeof(Probe) == 32 && sizeof(Fixup) == 16);

}  // namespace optrace::plan
