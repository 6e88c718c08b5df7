#pragma once

// Kernels: what was registered or loaded, its figures for the part, and launches.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tracer/emulated_device/device/device_kernel_effects.h"
#include "tracer/emulated_device/device/device_streams.h"

namespace optrace::emulated {

struct Module;

/// What a kernel's image for the part says of it.
struct KernelFigures {
  int registers;               ///< Of each thread.
  std::size_t static_shared;   ///< Bytes a block.
  std::size_t constant;        ///< Bytes, the kernel's own.
  std::size_t local;           ///< Bytes a thread.
  int max_threads;             ///< A block, by its registers and its launch bounds.
  int binary_version;          ///< 90: compiled for sm_90.
  int ptx_version;             ///< The virtual architecture that it came from, likewise.
  int dynamic_shared_limit;    ///< What was asked for, or the usual 48 KiB without static_shared.
  int carveout;                ///< Preferred shared memory, percent; -1: the system's choice.
  bool non_portable_clusters;  ///< Allowed.
};

struct Kernel {
  Module* module = nullptr;
  const char* name = nullptr;
  int dynamic_shared_limit = -1;  ///< As set by the program; -1: not.
  int carveout = -1;
  bool non_portable_clusters = false;
  std::shared_ptr<const KernelWrites> writes = nullptr;  ///< Worked out at its first launch.
};

struct Launch {
  unsigned grid[3];
  unsigned block[3];
  std::size_t dynamic_shared;
  bool cooperative;
  unsigned cluster[3];  ///< Zeros: none.
  /// Pointers to the arguments; looked at during the call only. Null: not known.
  void* const* arguments = nullptr;
};

/// Notes a fatbin (as nvcc's wrapper points to) or a cubin, which must live as long as the module.
/// Never fails: what can't be read has no image.
OPTRACE_DEVICE_EXPORT Module* add_module(const void* image);
OPTRACE_DEVICE_EXPORT void remove_module(Module* module);
/// A module of an image that may go away afterwards: it is read at once.
OPTRACE_DEVICE_EXPORT Status load_module(const void* image, Module*& module);

/// Registers a kernel by the address of its host function; `name` lives as long as the module.
OPTRACE_DEVICE_EXPORT Kernel* register_kernel(Module* module, const void* host, const char* name);
/// By its host function, or as kernel_handle() or find_kernel() gave it; null if unknown.
OPTRACE_DEVICE_EXPORT Kernel* kernel_of(const void* function);
/// What stands for the kernel beside its host function; null if that is unknown.
OPTRACE_DEVICE_EXPORT Kernel* kernel_handle(const void* host);
/// By its name in a module's image.
OPTRACE_DEVICE_EXPORT Status find_kernel(Module* module, const char* name, Kernel*& kernel);
OPTRACE_DEVICE_EXPORT Module* live_module(const void* module);

/// no_binary_for_device when there is neither machine code nor PTX for the part in the module.
OPTRACE_DEVICE_EXPORT Status check_image(Module* module);
OPTRACE_DEVICE_EXPORT Status figures_of(Kernel* kernel, KernelFigures& figures);

/// How many blocks of that size a multiprocessor holds.
OPTRACE_DEVICE_EXPORT Status active_blocks(Kernel* kernel, int threads, std::size_t dynamic_shared,
                                           int& blocks);
/// The block size that fills a multiprocessor best, and the grid that fills the device with them.
OPTRACE_DEVICE_EXPORT Status best_block(Kernel* kernel, std::size_t (*shared)(int),
                                        std::size_t dynamic_shared, int limit, int& grid,
                                        int& block);

OPTRACE_DEVICE_EXPORT Status set_dynamic_shared_limit(Kernel* kernel, int bytes);

/// Checks the launch's figures and records it; nothing is executed.
OPTRACE_DEVICE_EXPORT Status launch(Kernel* kernel, const Launch& launch, void* stream,
                                    const char* function);

/// A kernel as the operation of a graph's node.
OPTRACE_DEVICE_EXPORT Operation launch_operation(Kernel& kernel, const Launch& launch);

/// Where a module's variable of that size lives on the current device; made at the first call.
OPTRACE_DEVICE_EXPORT Status register_variable(Module* module, const void* host, const char* name,
                                               std::size_t bytes);
OPTRACE_DEVICE_EXPORT Status variable_of(const void* host, void*& address, std::size_t& bytes);

}  // namespace optrace::emulated
