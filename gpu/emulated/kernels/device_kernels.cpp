#include "gpu/emulated/kernels/device_kernels.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <cuda_occupancy.h>
#include <cxxabi.h>

#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/kernels/device_images.h"

namespace optrace::emulated {

struct Module {
  const void* image = nullptr;
  bool checked = false;
  bool has_image = false;
  bool loaded = false;  // By the program; has code.
  std::deque<Kernel> kernels;
  std::deque<std::string> names;  // Names of kernels found by name.
  std::unordered_map<std::string, Kernel*> by_name;
  std::shared_ptr<const KernelImage> code;  // Parsed on demand.
  std::deque<const void*> hosts;            // Host functions to unregister with the module.
};

namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;
constexpr int kMaxRegisters = 255;
// The driver's minimum per thread, independent of the image.
constexpr int kMinRegisters = 16;

std::mutex kernels_mutex;
const HeldAcrossFork<kernels_mutex> kernels_held;

struct Variable {
  const char* name;
  std::size_t bytes;
  std::unordered_map<int, void*> addresses;  // By device.
};

struct KernelState {
  // PyTorch registers 25,000 kernels when it is imported.
  KernelState() { kernels.reserve(32768); }
  std::unordered_map<const void*, std::unique_ptr<Module>> modules;
  std::unordered_map<const void*, Kernel*> kernels;  // By host function and by handle.
  std::unordered_map<const void*, Variable> variables;
};

KernelState& kernel_state() {
  // Never destroyed, because kernels are unregistered when the process ends.
  static auto* const all = new KernelState;
  return *all;
}

// The following require kernels_mutex to be locked.

Status check(Module& module) {
  if (!module.checked) {
    module.has_image = has_image_for_gpu_model(module.image);
    module.checked = true;
  }
  return module.has_image ? Status::success : Status::no_binary_for_device;
}

Status read(Module& module) {
  const Status status = check(module);
  if (status != Status::success) return status;
  if (module.code == nullptr) module.code = read_image(module.image);
  return module.code == nullptr ? Status::invalid_image : Status::success;
}

cudaOccDeviceProp occupancy_properties() {
  const GpuModel& device = gpu_model();
  cudaOccDeviceProp properties;
  properties.computeMajor = device.major;
  properties.computeMinor = device.minor;
  properties.maxThreadsPerBlock = kMaxThreads;
  properties.maxThreadsPerMultiprocessor = device.threads;
  properties.regsPerBlock = 65536;
  properties.regsPerMultiprocessor = device.registers;
  properties.warpSize = kWarp;
  properties.sharedMemPerBlock = static_cast<std::size_t>(device.shared_memory_per_block);
  properties.sharedMemPerMultiprocessor = static_cast<std::size_t>(device.shared_memory);
  properties.numSms = device.multiprocessors;
  properties.sharedMemPerBlockOptin =
      static_cast<std::size_t>(device.shared_memory_per_block_optin);
  properties.reservedSharedMemPerBlock = static_cast<std::size_t>(device.reserved_shared_memory);
  return properties;
}

/// Returns false for a GPU model that the installed CUDA version doesn't support.
bool occupancy(const KernelFigures& kernel, int threads, std::size_t dynamic_shared, int& blocks) {
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = kernel.max_threads;
  attributes.numRegs = kernel.registers;
  attributes.sharedSizeBytes = kernel.static_shared;
  attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  attributes.maxDynamicSharedSizeBytes = static_cast<std::size_t>(kernel.dynamic_shared_limit);
  attributes.numBlockBarriers = 1;
  cudaOccDeviceState state;
  state.carveoutConfig = kernel.carveout;
  const cudaOccDeviceProp properties = occupancy_properties();
  cudaOccResult result;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &attributes, &state, threads,
                                              dynamic_shared) != CUDA_OCC_SUCCESS)
    return false;
  blocks = result.activeBlocksPerMultiprocessor;
  return true;
}

void add_triple(optrace_ops::JsonText& json, const char* key, const unsigned (&values)[3]) {
  json.key(key);
  json.open('[');
  for (const unsigned value : values) json.number(static_cast<std::uint64_t>(value));
  json.close(']');
}

/// Returns what a kernel of a module that the program loads, such as Triton's, needs. The images of
/// these modules are read when they are loaded; those that are linked into libraries mostly never.
std::optional<CubinFigures> loaded_figures(const Kernel& kernel) {
  const std::lock_guard lock(kernels_mutex);
  CubinFigures cubin{};
  if (!kernel.module->loaded || !kernel.module->code->figures(kernel.name, cubin)) return {};
  return cubin;
}

void describe(Call& call, const char* name, const Launch& launch,
              const std::optional<CubinFigures>& figures, std::uint64_t stream) {
  optrace_ops::JsonText& json = call.json();
  json.key("kernel");
  json.string(name);
  add_triple(json, "grid", launch.grid);
  add_triple(json, "block", launch.block);
  if (launch.cluster[0] != 0) add_triple(json, "cluster", launch.cluster);
  json.key("shared_memory");
  json.number(static_cast<std::uint64_t>(launch.dynamic_shared));
  json.key("stream");
  json.number(stream);
  if (figures) {
    json.key("static_shared_memory");
    json.number(static_cast<std::uint64_t>(figures->shared));
    json.key("registers");
    json.number(static_cast<std::uint64_t>(std::max(figures->registers, kMinRegisters)));
    json.key("local_memory");
    json.number(static_cast<std::uint64_t>(figures->local));
  }
  if (launch.cooperative) {
    json.key("cooperative");
    json.boolean(true);
  }
}

/// Returns the launch in the form reported to a profiler.
Work work_of(Kernel& kernel, const Launch& launch) {
  Work work;
  work.kernel = kernel.name;
  for (int i = 0; i < 3; ++i) {
    work.grid[i] = launch.grid[i];
    work.block[i] = launch.block[i];
    work.cluster[i] = launch.cluster[i];
  }
  work.dynamic_shared = launch.dynamic_shared;
  KernelFigures figures{};
  // Requires the image to be parsed.
  if (observed() && figures_of(&kernel, figures) == Status::success) {
    work.static_shared = figures.static_shared;
    work.registers = figures.registers;
    work.local = figures.local;
  }
  return work;
}

KernelWrites writes_of_kernel(const char* mangled) {
  int status = 0;
  char* const name = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  const std::string signature = name == nullptr ? mangled : name;
  std::free(name);
  return writes_of(signature);
}

/// Returns the size of each parameter in bytes from the kernel's image; empty if unknown.
std::vector<std::size_t> parameter_bytes(Kernel& kernel) {
  const std::lock_guard lock(kernels_mutex);
  CubinFigures cubin{};
  if (read(*kernel.module) != Status::success || !kernel.module->code->figures(kernel.name, cubin))
    return {};
  return cubin.parameters;
}

/// Returns the effects of a launch on device memory.
std::vector<Effect> effects_of_launch(Kernel& kernel, const Launch& launch) {
  if (launch.arguments == nullptr) return {};
  std::shared_ptr<const KernelWrites> writes;
  {
    const std::lock_guard lock(kernels_mutex);
    writes = kernel.writes;
  }
  if (writes == nullptr) {
    const auto made = std::make_shared<KernelWrites>(writes_of_kernel(kernel.name));
    if (needs_sizes(*made)) made->argument_bytes = parameter_bytes(kernel);
    writes = made;
    const std::lock_guard lock(kernels_mutex);
    kernel.writes = writes;
  }
  const std::size_t blocks = std::size_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  return effects_of(*writes, launch.arguments, blocks);
}

Status check_launch(const Kernel& kernel, const Launch& launch) {
  constexpr unsigned kMaxBlocksX = 0x7FFFFFFF;
  constexpr unsigned kMaxBlocks = 65535;
  constexpr unsigned kMaxThreadsZ = 64;
  for (int i = 0; i < 3; ++i)
    if (launch.grid[i] == 0 || launch.block[i] == 0) return Status::invalid_configuration;
  if (launch.grid[0] > kMaxBlocksX || launch.grid[1] > kMaxBlocks || launch.grid[2] > kMaxBlocks)
    return Status::invalid_configuration;
  if (launch.block[0] > kMaxThreads || launch.block[1] > kMaxThreads ||
      launch.block[2] > kMaxThreadsZ)
    return Status::invalid_configuration;
  if (std::uint64_t{launch.block[0]} * launch.block[1] * launch.block[2] > kMaxThreads)
    return Status::invalid_configuration;
  const int limit = kernel.dynamic_shared_limit < 0 ? gpu_model().shared_memory_per_block
                                                    : std::max(kernel.dynamic_shared_limit,
                                                               gpu_model().shared_memory_per_block);
  return launch.dynamic_shared > static_cast<std::size_t>(limit) ? Status::invalid_value
                                                                 : Status::success;
}

}  // namespace

Module* add_module(const void* image) {
  auto module = std::make_unique<Module>();
  module->image = image;
  Module* const added = module.get();
  const std::lock_guard lock(kernels_mutex);
  kernel_state().modules[added] = std::move(module);
  return added;
}

Status load_module(const void* image, Module*& module) {
  if (is_ptx(image)) {
    unimplemented("the compilation of PTX");
    return Status::no_binary_for_device;
  }
  if (!has_image_for_gpu_model(image)) return Status::no_binary_for_device;
  const auto code = read_image(image);
  if (code == nullptr) return Status::invalid_image;
  module = add_module(nullptr);
  const std::lock_guard lock(kernels_mutex);
  module->checked = true;
  module->has_image = true;
  module->loaded = true;
  module->code = code;
  return Status::success;
}

Module* live_module(const void* module) {
  const std::lock_guard lock(kernels_mutex);
  const auto found = kernel_state().modules.find(module);
  return found == kernel_state().modules.end() ? nullptr : found->second.get();
}

void remove_module(Module* module) {
  const std::lock_guard lock(kernels_mutex);
  const auto found = kernel_state().modules.find(module);
  if (found == kernel_state().modules.end()) return;
  for (const void* const host : module->hosts) {
    kernel_state().kernels.erase(host);
    kernel_state().variables.erase(host);
  }
  for (const Kernel& kernel : module->kernels) kernel_state().kernels.erase(&kernel);
  kernel_state().modules.erase(found);
}

Kernel* register_kernel(Module* module, const void* host, const char* name) {
  const std::lock_guard lock(kernels_mutex);
  if (kernel_state().modules.count(module) == 0 || name == nullptr) return nullptr;
  module->kernels.push_back({module, name, -1, -1, false, nullptr});
  Kernel* const kernel = &module->kernels.back();
  module->hosts.push_back(host);
  kernel_state().kernels[host] = kernel;
  return kernel;
}

Kernel* kernel_of(const void* function) {
  const std::lock_guard lock(kernels_mutex);
  const auto found = kernel_state().kernels.find(function);
  if (found != kernel_state().kernels.end()) return found->second;
  return nullptr;
}

Kernel* kernel_handle(const void* host) {
  const std::lock_guard lock(kernels_mutex);
  const auto found = kernel_state().kernels.find(host);
  if (found == kernel_state().kernels.end()) return nullptr;
  Kernel* const kernel = found->second;
  kernel_state().kernels[kernel] = kernel;
  return kernel;
}

Status find_kernel(Module* module, const char* name, Kernel*& kernel) {
  const std::lock_guard lock(kernels_mutex);
  if (kernel_state().modules.count(module) == 0 || name == nullptr) return Status::invalid_handle;
  const auto known = module->by_name.find(name);
  if (known != module->by_name.end()) {
    kernel = known->second;
    return Status::success;
  }
  const Status status = read(*module);
  if (status != Status::success) return status;
  CubinFigures unused{};
  if (!module->code->figures(name, unused)) return Status::not_found;
  module->names.emplace_back(name);
  module->kernels.push_back({module, module->names.back().c_str(), -1, -1, false, nullptr});
  kernel = &module->kernels.back();
  module->by_name[name] = kernel;
  kernel_state().kernels[kernel] = kernel;
  return Status::success;
}

Status check_image(Module* module) {
  const std::lock_guard lock(kernels_mutex);
  return check(*module);
}

Status figures_of(Kernel* kernel, KernelFigures& figures) {
  const std::lock_guard lock(kernels_mutex);
  const Status status = read(*kernel->module);
  if (status != Status::success) return status;
  CubinFigures cubin{};
  if (!kernel->module->code->figures(kernel->name, cubin)) return Status::invalid_image;
  figures.registers = std::max(cubin.registers, kMinRegisters);
  figures.static_shared = cubin.shared;
  figures.constant = cubin.constant;
  figures.local = cubin.local;
  figures.binary_version = cubin.binary_version;
  figures.ptx_version = cubin.ptx_version;
  // Registers are allocated to warps in units of 256, and a block has 65,536 of them.
  constexpr int kUnit = 256;
  const int each_warp = (figures.registers * kWarp + kUnit - 1) / kUnit * kUnit;
  const int by_registers = 65536 / each_warp / 4 * 4 * kWarp;
  figures.max_threads = std::min(
      {kMaxThreads, by_registers, cubin.max_threads == 0 ? kMaxThreads : cubin.max_threads});
  const int usual =
      std::max(0, gpu_model().shared_memory_per_block - static_cast<int>(figures.static_shared));
  figures.dynamic_shared_limit =
      kernel->dynamic_shared_limit < 0 ? usual : kernel->dynamic_shared_limit;
  figures.carveout = kernel->carveout;
  figures.non_portable_clusters = kernel->non_portable_clusters;
  return cubin.registers > kMaxRegisters ? Status::invalid_image : Status::success;
}

Status active_blocks(Kernel* kernel, int threads, std::size_t dynamic_shared, int& blocks) {
  if (threads <= 0) return Status::invalid_value;
  KernelFigures figures{};
  const Status status = figures_of(kernel, figures);
  if (status != Status::success) return status;
  return occupancy(figures, threads, dynamic_shared, blocks) ? Status::success
                                                             : Status::not_supported;
}

Status best_block(Kernel* kernel, std::size_t (*shared)(int), std::size_t dynamic_shared, int limit,
                  int& grid, int& block) {
  KernelFigures figures{};
  const Status status = figures_of(kernel, figures);
  if (status != Status::success) return status;
  const int most = limit <= 0 ? figures.max_threads : std::min(limit, figures.max_threads);
  int best = 0;
  grid = 0;
  block = 0;
  for (int threads = (most + kWarp - 1) / kWarp * kWarp; threads > 0; threads -= kWarp) {
    const int size = std::min(threads, most);
    int blocks = 0;
    if (!occupancy(figures, size, shared == nullptr ? dynamic_shared : shared(size), blocks))
      return Status::not_supported;
    if (blocks * size <= best) continue;
    best = blocks * size;
    block = size;
    grid = blocks * gpu_model().multiprocessors;
    if (best == gpu_model().threads) break;
  }
  return Status::success;
}

Status set_dynamic_shared_limit(Kernel* kernel, int bytes) {
  KernelFigures figures{};
  const Status status = figures_of(kernel, figures);
  if (status != Status::success) return status;
  if (bytes < 0 || static_cast<std::size_t>(bytes) + figures.static_shared >
                       static_cast<std::size_t>(gpu_model().shared_memory_per_block_optin))
    return Status::invalid_value;
  const std::lock_guard lock(kernels_mutex);
  kernel->dynamic_shared_limit = bytes;
  return Status::success;
}

Status set_kernel_attribute(Kernel* kernel, KernelAttribute attribute, int value) {
  constexpr int kMaxPercent = 100;
  switch (attribute) {
    case KernelAttribute::dynamic_shared:
      return set_dynamic_shared_limit(kernel, value);
    case KernelAttribute::carveout:
      if (value < -1 || value > kMaxPercent) return Status::invalid_value;
      kernel->carveout = value;
      return Status::success;
    case KernelAttribute::non_portable_clusters:
      if (gpu_model().major < 9) return Status::not_supported;
      kernel->non_portable_clusters = value != 0;
      return Status::success;
  }
  return Status::invalid_value;
}

std::vector<char> read_image(const char* path) {
  std::vector<char> content;
  FILE* const file = std::fopen(path, "rbe");
  if (file == nullptr) return content;
  std::array<char, 65536> buffer{};
  std::size_t size = 0;
  do {
    size = std::fread(buffer.data(), 1, buffer.size(), file);
    content.insert(content.end(), buffer.begin(), buffer.begin() + static_cast<long>(size));
  } while (size == buffer.size());
  std::fclose(file);
  return content;
}

Operation launch_operation(Kernel& kernel, const Launch& launch) {
  Operation operation{NodeKind::kernel,
                      "kernel",
                      {},
                      [name = std::string(kernel.name), launch, figures = loaded_figures(kernel)](
                          Call& call) { describe(call, name.c_str(), launch, figures, 0); }};
  // Computed now, because the arguments don't exist any more when the graph runs.
  operation.run = [effects = effects_of_launch(kernel, launch)] { apply(effects); };
  operation.work = work_of(kernel, launch);
  return operation;
}

Status launch(Kernel* kernel, const Launch& launch, void* stream, const char* function) {
  const ObservedCall observed_call(function);
  Status status = check_launch(*kernel, launch);
  if (status == Status::success) status = check_image(kernel->module);
  if (status != Status::success) {
    Call call(function, "refused");
    describe(call, kernel->name, launch, loaded_figures(*kernel), 0);
    call.json().key("why");
    call.json().string(status == Status::no_binary_for_device
                           ? std::string("no image of the kernel for ") + gpu_model().arch
                           : std::string("the launch's figures are beyond the GPU model's limits"));
    call.record();
    return status;
  }
  bool captures = false;
  std::uint64_t number = 0;
  status = capturing(stream, captures, &number);
  if (status != Status::success) return status;
  if (captures) return submit(stream, function, launch_operation(*kernel, launch));
  apply(effects_of_launch(*kernel, launch));
  if (observed()) observed_call.tell(work_of(*kernel, launch), number);
  if (!recording()) return Status::success;
  Call call(function, "kernel");
  describe(call, kernel->name, launch, loaded_figures(*kernel), number);
  call.record();
  return Status::success;
}

Status register_variable(Module* module, const void* host, const char* name, std::size_t bytes) {
  const std::lock_guard lock(kernels_mutex);
  if (kernel_state().modules.count(module) == 0) return Status::invalid_handle;
  module->hosts.push_back(host);
  kernel_state().variables[host] = {name, bytes, {}};
  return Status::success;
}

Status variable_of(const void* host, void*& address, std::size_t& bytes) {
  const int device = current_device();
  {
    const std::lock_guard lock(kernels_mutex);
    const auto found = kernel_state().variables.find(host);
    if (found == kernel_state().variables.end()) return Status::not_found;
    bytes = found->second.bytes;
    const auto known = found->second.addresses.find(device);
    if (known != found->second.addresses.end()) {
      address = known->second;
      return Status::success;
    }
  }
  void* const place = allocate(bytes, MemoryKind::device, device);
  if (place == nullptr) return Status::out_of_memory;
  {
    const std::lock_guard lock(kernels_mutex);
    const auto found = kernel_state().variables.find(host);
    if (found != kernel_state().variables.end()) {
      address = found->second.addresses.emplace(device, place).first->second;
      if (address == place) return Status::success;
    }
  }
  release(place);  // Another thread has registered it in the meantime.
  return Status::success;
}

}  // namespace optrace::emulated
