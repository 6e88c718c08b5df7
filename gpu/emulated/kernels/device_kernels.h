#pragma once

// Kernels: registered and loaded modules, properties of kernels on the GPU model, and launches.

#include <cstddef>
#include <memory>

#include "gpu/emulated/kernels/device_kernel_effects.h"
#include "gpu/emulated/streams/device_streams.h"

namespace optrace::emulated {

struct Module;

/// Properties of a kernel from its image for the GPU model.
struct KernelFigures {
  int registers;              ///< Per thread.
  std::size_t static_shared;  ///< In bytes, per block.
  std::size_t constant;       ///< In bytes, of this kernel.
  std::size_t local;          ///< In bytes, per thread.
  int max_threads;            ///< Per block, limited by registers and launch bounds.
  int binary_version;         ///< 90 for a kernel compiled for sm_90.
  int ptx_version;            ///< The virtual architecture that it was compiled from; same format.
  /// The limit set by the program, or the default 48 KiB minus static_shared.
  int dynamic_shared_limit;
  int carveout;                ///< Preferred shared memory in percent; -1: default.
  bool non_portable_clusters;  ///< True if allowed.
};

struct Kernel {
  Module* module = nullptr;
  const char* name = nullptr;
  int dynamic_shared_limit = -1;  ///< As set by the program; -1: not set.
  int carveout = -1;
  bool non_portable_clusters = false;
  std::shared_ptr<const KernelWrites> writes = nullptr;  ///< Determined at its first launch.
};

struct Launch {
  unsigned grid[3];
  unsigned block[3];
  std::size_t dynamic_shared;
  bool cooperative;
  unsigned cluster[3];  ///< Zeros: no cluster.
  /// Pointers to the arguments, accessed only during the call. Null: unknown.
  void* const* arguments = nullptr;
};

/// Registers a fatbin (as in nvcc's wrapper) or a cubin, which must live as long as the module.
/// Never fails: a module that can't be read has no image.
OPTRACE_DEVICE_EXPORT Module* add_module(const void* image);
OPTRACE_DEVICE_EXPORT void remove_module(Module* module);
/// Loads a module from an image that may be freed afterwards.
OPTRACE_DEVICE_EXPORT Status load_module(const void* image, Module*& module);

/// Registers a kernel by the address of its host function. `name` must live as long as the module.
OPTRACE_DEVICE_EXPORT Kernel* register_kernel(Module* module, const void* host, const char* name);
/// Finds a kernel by its host function or by the result of kernel_handle() or find_kernel().
/// Returns null if unknown.
OPTRACE_DEVICE_EXPORT Kernel* kernel_of(const void* function);
/// Returns a handle that identifies the kernel as its host function does, or null if that is
/// unknown.
OPTRACE_DEVICE_EXPORT Kernel* kernel_handle(const void* host);
/// Finds a kernel by its name in a module's image.
OPTRACE_DEVICE_EXPORT Status find_kernel(Module* module, const char* name, Kernel*& kernel);
OPTRACE_DEVICE_EXPORT Module* live_module(const void* module);

/// Size in bytes of the smallest image's header.
constexpr std::size_t kMinImageSize = 64;

/// Returns what a file with an image contains; nothing if it can't be read.
OPTRACE_DEVICE_EXPORT std::vector<char> read_image(const char* path);

/// Returns no_binary_for_device if the module contains neither machine code nor PTX for the GPU
/// model.
OPTRACE_DEVICE_EXPORT Status check_image(Module* module);
OPTRACE_DEVICE_EXPORT Status figures_of(Kernel* kernel, KernelFigures& figures);

/// Computes the number of blocks of this size that a multiprocessor can hold.
OPTRACE_DEVICE_EXPORT Status active_blocks(Kernel* kernel, int threads, std::size_t dynamic_shared,
                                           int& blocks);
/// Computes the block size with the highest occupancy and the grid that fills the device with such
/// blocks.
OPTRACE_DEVICE_EXPORT Status best_block(Kernel* kernel, std::size_t (*shared)(int),
                                        std::size_t dynamic_shared, int limit, int& grid,
                                        int& block);

OPTRACE_DEVICE_EXPORT Status set_dynamic_shared_limit(Kernel* kernel, int bytes);

/// Attributes of kernels that can be set, with their values in cudaFuncAttribute and
/// CUfunction_attribute.
enum class KernelAttribute : int { dynamic_shared = 8, carveout = 9, non_portable_clusters = 14 };

OPTRACE_DEVICE_EXPORT Status set_kernel_attribute(Kernel* kernel, KernelAttribute attribute,
                                                  int value);

/// Checks the launch's values and records it. Nothing is executed.
OPTRACE_DEVICE_EXPORT Status launch(Kernel* kernel, const Launch& launch, void* stream,
                                    const char* function);

/// Returns a kernel launch as the operation of a graph node.
OPTRACE_DEVICE_EXPORT Operation launch_operation(Kernel& kernel, const Launch& launch);

/// Registers a module's variable, which is allocated on the current device at the first call.
OPTRACE_DEVICE_EXPORT Status register_variable(Module* module, const void* host, const char* name,
                                               std::size_t bytes);
OPTRACE_DEVICE_EXPORT Status variable_of(const void* host, void*& address, std::size_t& bytes);

}  // namespace optrace::emulated
