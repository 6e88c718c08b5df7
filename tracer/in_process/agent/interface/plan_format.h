#pragma once

// The probe plan: one file per module, written by the command, mapped by the agent. All thinking
// about instructions is done when the plan is made, so the agent needs no decoder: for each probe
// the plan holds position-independent bytes for the displaced instructions (the jump back behind
// them included) and what to fill in once the slot's address is known.
//
//   PlanHeader | PlanProbe[probe_count] | PlanFixup[fixup_count] | code bytes[code_size]
//
// Little-endian, naturally aligned, one process-wide version number: reader and writer are built
// together, and a plan of another version is made again, never converted.

#include <cstdint>

namespace optrace::plan {

constexpr char kMagic[8] = {'O', 'P', 'T', 'P', 'L', 'A', 'N', '\0'};
constexpr std::uint32_t kVersion = 3;
constexpr std::uint32_t kMaxBuildIdLength = 32;  // Bytes; a SHA-1 build-id has 20.

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t build_id_size;  // 0: the module has none and is known by its path and size alone.
  std::uint8_t build_id[kMaxBuildIdLength];
  std::uint32_t probe_count;
  std::uint32_t fixup_count;
  std::uint32_t code_size;
  std::uint32_t path_size;  // The module's path, not terminated, follows the code bytes.
  std::uint64_t fork_lock;  // A pthread_mutex_t of the module, as linked, that no thread may have
                            // while the process forks; 0: none.
  std::uint64_t checksum;   // XXH3_64bits of all that follows the header.
};

// How a function's entry may be patched.
enum class Patch : std::uint8_t {
  trap_only = 0,  // int3 only: the function is shorter than a jump, or something lands behind its
                  // first byte.
  jump = 1,       // A 5-byte jump (or int3) at the entry.
};

struct Probe {
  std::uint64_t address;      // Of the entry, as linked.
  std::uint32_t code_offset;  // Into the code bytes: the displaced instructions and the jump back.
  std::uint32_t first_fixup;
  std::uint16_t code_size;
  std::uint16_t fixup_count;
  std::uint8_t displaced;  // Bytes of the original that the code stands for: 5 or more for a jump.
  Patch patch;
  std::uint8_t original_size;  // Bytes valid in `original`: what the agent must find at the entry.
  std::uint8_t arguments;      // Not 0: record the first two integer arguments too (kArguments).
  std::uint8_t original[8];
};

enum class FixupKind : std::uint8_t {
  relative32 = 0,  // *(int32*)(slot + offset) = target - (slot + offset + 4) - addend
  absolute64 = 1,  // *(uint64*)(slot + offset) = target
};

struct Fixup {
  std::uint64_t target;  // As linked; the agent adds the module's load bias.
  std::uint16_t offset;  // In the probe's code.
  FixupKind kind;
  std::uint8_t
      addend;  // Bytes of the instruction that follow its 32-bit displacement (an immediate).
  std::uint32_t reserved;
};

static_assert(sizeof(Header) == 80 && sizeof(Probe) == 32 && sizeof(Fixup) == 16);

}  // namespace optrace::plan
