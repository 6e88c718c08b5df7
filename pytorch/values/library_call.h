#pragma once

// Calls of libraries and launches of device kernels, as traces and reports have them. C++17,
// because the reader library that other programs link includes it.

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "pytorch/values/values.h"

namespace optrace {

/// Nanoseconds.
struct Duration {
  std::uint64_t total = 0;
  std::uint64_t shortest = 0;
  std::uint64_t longest = 0;

  auto fields() const { return std::tie(total, shortest, longest); }
};

struct NamedValue;

/// A value of a library call that is shown as it is: `m`, `problem`, a graph's operations.
struct OpenValue {
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string,
               std::vector<OpenValue>, std::vector<NamedValue>>
      value;

  auto fields() const { return std::tie(value); }
};
struct NamedValue {
  std::string name;
  OpenValue value;

  auto fields() const { return std::tie(name, value); }
};

/// A call of a library, or work of a device, with the number of equal ones.
struct LibraryCall {
  std::string kind;  ///< `library`, `copy`, `fill`, `synchronize`, `failed`, `refused`, ...
  std::uint64_t calls = 0;
  std::string function;        ///< The called one, if it is not that of the frame.
  std::string library;         ///< `oneDNN`, `BLAS` or `LAPACK`; empty for those of a device.
  std::string implementation;  ///< That oneDNN chose; may be empty.
  std::string direction;       ///< Of a copy: `host to device`.
  std::optional<std::uint64_t> bytes;  ///< Of a copy or fill.
  std::optional<std::int64_t> error;   ///< Number of the returned error.
  std::string status;                  ///< Name of that error.
  std::string why;                     ///< The rule that a refused call violates.
  std::optional<Duration> duration;    ///< On the device, of all of these calls.
  std::vector<NamedValue> values;      ///< The others, by name.

  bool has_failed() const { return kind == "failed"; }
  bool is_refused() const { return kind == "refused"; }
  auto fields() const {
    return std::tie(kind, calls, function, library, implementation, direction, bytes, error, status,
                    why, duration, values);
  }
};

/// A parameter for which a Triton kernel was compiled.
struct NamedConstant {
  std::string name;
  Constant value;

  auto fields() const { return std::tie(name, value); }
};

/// Launches of a device kernel, with the number of equal ones.
struct Launch {
  std::uint64_t calls = 0;
  std::vector<std::uint64_t> grid;     ///< Blocks in x, y and z.
  std::vector<std::uint64_t> block;    ///< Threads in x, y and z.
  std::vector<std::uint64_t> cluster;  ///< Blocks of a cluster; empty if there are no clusters.
  // In bytes per block; in registers and bytes per thread.
  std::optional<std::uint64_t> shared_memory, static_shared_memory, registers, local_memory;
  std::optional<std::uint64_t> num_warps, num_stages;  ///< Of a Triton kernel.
  std::vector<NamedConstant> constants;                ///< Same, by name.
  std::optional<std::uint64_t> device;                 ///< If it is not 0.
  std::optional<std::uint64_t> stream;                 ///< 0 is the default stream.
  std::optional<Duration> duration;                    ///< On the device.
  std::vector<NamedValue> values;                      ///< The others, by name.

  auto fields() const {
    return std::tie(calls, grid, block, cluster, shared_memory, static_shared_memory, registers,
                    local_memory, num_warps, num_stages, constants, device, stream, duration,
                    values);
  }
};

/// One of the configurations that a Triton kernel was compiled for. A figure that the trace doesn't
/// have is empty.
struct TritonConfiguration {
  std::vector<NamedConstant> constants;        ///< By name.
  std::optional<std::uint64_t> num_warps;      ///< Of a block.
  std::optional<std::uint64_t> num_stages;     ///< Of pipelined loops.
  std::optional<std::uint64_t> shared_memory;  ///< Dynamic, in bytes per block.
  std::optional<std::uint64_t> registers;      ///< Per thread.
  std::optional<std::uint64_t> local_memory;   ///< In bytes per thread.
  std::optional<bool> chosen;                  ///< By autotuning; empty without it.

  auto fields() const {
    return std::tie(constants, num_warps, num_stages, shared_memory, registers, local_memory,
                    chosen);
  }
};

}  // namespace optrace
