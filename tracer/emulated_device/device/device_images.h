#pragma once

// Kernels' images: fatbins as nvcc embeds them (one image for each architecture, compressed with
// LZ4 or zstd), and cubins. Their bytes are another program's: every one is bounds-checked.

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace optrace::emulated {

struct CubinFigures {
  int registers;         ///< Of each thread.
  std::size_t shared;    ///< Static, of each block, without the system's reserve; bytes.
  std::size_t constant;  ///< Of the module; bytes.
  std::size_t local;     ///< Of each thread; bytes.
  int max_threads;       ///< Launch bounds; 0: none.
  int binary_version;    ///< 90 for sm_90.
  int ptx_version;
  std::vector<std::size_t> parameters;  ///< Bytes of each; 0 or none where it isn't said.
};

/// The kernels of an image for the part.
class KernelImage {
 public:
  /// False for a kernel that isn't there.
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

/// Whether a fatbin or a cubin has machine code that runs on the part.
bool has_image_for_part(const void* image);

/// Whether it is PTX text, which nothing here compiles.
bool is_ptx(const void* image);

/// Reads that machine code; null if it can't be read.
std::shared_ptr<const KernelImage> read_image(const void* image);

}  // namespace optrace::emulated
