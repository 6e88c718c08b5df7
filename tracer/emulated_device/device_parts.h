#pragma once

// The parts that can be emulated. The command reads this table too: it is what `--dry-run` takes.

#include <array>
#include <cstdint>

namespace optrace::emulated {

/// A real part: what cudaGetDeviceProperties says of it. From NVIDIA's public tables (CUDA C++
/// Programming Guide, "Compute Capabilities", and the data sheets).
struct Part {
  const char* arch;  ///< "sm_90"
  const char* name;  ///< "NVIDIA H100 80GB HBM3"
  int major;
  int minor;
  int multiprocessors;
  std::uint64_t memory;  ///< Bytes.
  int l2_cache;          ///< Bytes.
  int memory_bus_width;  ///< Bits.
  int memory_clock;      ///< kHz
  int clock;             ///< kHz
  // Of each multiprocessor:
  int threads;        ///< Resident at a time.
  int blocks;         ///< Likewise.
  int registers;      ///< Of 32 bits.
  int shared_memory;  ///< Bytes.
  // Of each block:
  int shared_memory_per_block;        ///< Bytes, without asking for more.
  int shared_memory_per_block_optin;  ///< Bytes, at most.
  int reserved_shared_memory;         ///< Bytes, of the system's own.
};

constexpr std::uint64_t kMebibyte = 1024ULL * 1024;

// One real product for each architecture. `memory` is what CUDA hands out of it, a little less than
// the data sheet's. Limits of a multiprocessor and a block: "Technical Specifications per Compute
// Capability" in the CUDA C++ Programming Guide.
inline constexpr std::array<Part, 7> kParts{{
    {"sm_75", "Tesla T4", 7, 5, 40, 15102 * kMebibyte, 4 << 20, 256, 5001000, 1590000,  //
     1024, 16, 65536, 64 << 10, 48 << 10, 64 << 10, 0},
    {"sm_80", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 81154 * kMebibyte, 40 << 20, 5120, 1593000,
     1410000,  //
     2048, 32, 65536, 164 << 10, 48 << 10, 163 << 10, 1 << 10},
    {"sm_86", "NVIDIA A10", 8, 6, 72, 22516 * kMebibyte, 6 << 20, 384, 6251000, 1695000,  //
     1536, 16, 65536, 100 << 10, 48 << 10, 99 << 10, 1 << 10},
    {"sm_89", "NVIDIA L4", 8, 9, 58, 22478 * kMebibyte, 48 << 20, 192, 6251000, 2040000,  //
     1536, 24, 65536, 100 << 10, 48 << 10, 99 << 10, 1 << 10},
    {"sm_90", "NVIDIA H100 80GB HBM3", 9, 0, 132, 81079 * kMebibyte, 50 << 20, 5120, 2619000,
     1980000,  //
     2048, 32, 65536, 228 << 10, 48 << 10, 227 << 10, 1 << 10},
    {"sm_100", "NVIDIA B200", 10, 0, 148, 182642 * kMebibyte, 126 << 20, 8192, 3996000,
     1965000,  //
     2048, 32, 65536, 228 << 10, 48 << 10, 227 << 10, 1 << 10},
    {"sm_120", "NVIDIA GeForce RTX 5090", 12, 0, 170, 32106 * kMebibyte, 96 << 20, 512, 14001000,
     2407000,  //
     1536, 24, 65536, 100 << 10, 48 << 10, 99 << 10, 1 << 10},
}};
/// What `--dry-run` stands for without a part.
inline constexpr const char* kUsualPart = "sm_90";

}  // namespace optrace::emulated
