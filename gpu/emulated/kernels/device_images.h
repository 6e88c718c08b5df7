#pragma once

// Parser of kernel images: fatbins as embedded by nvcc (one image per architecture, compressed with
// LZ4 or zstd), and cubins. The bytes come from another program, so all accesses are
// bounds-checked.

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace optrace::emulated {

struct CubinFigures {
  int registers;         ///< Per thread.
  std::size_t shared;    ///< Static shared memory per block without the system's reserve, in bytes.
  std::size_t constant;  ///< Of the module, in bytes.
  std::size_t local;     ///< Per thread, in bytes.
  int max_threads;       ///< From launch bounds; 0: none.
  int binary_version;    ///< 90 for sm_90.
  int ptx_version;
  std::vector<std::size_t> parameters;  ///< Size of each parameter in bytes; 0 or empty if unknown.
};

/// The kernels of the image for the GPU model.
class KernelImage {
 public:
  /// Returns false for an unknown kernel.
  bool figures(const std::string& kernel, CubinFigures& found) const {
    const auto known = kernels_.find(kernel);
    if (known == kernels_.end()) return false;
    found = known->second;
    return true;
  }

 private:
  friend class CubinReader;
  std::unordered_map<std::string, CubinFigures> kernels_;
};

/// Returns true if a fatbin or cubin contains machine code that runs on the GPU model.
bool has_image_for_gpu_model(const void* image);

/// Returns true for PTX text, which is not compiled here.
bool is_ptx(const void* image);

/// Reads that machine code. Returns null if it can't be read.
std::shared_ptr<const KernelImage> read_image(const void* image);

}  // namespace optrace::emulated
