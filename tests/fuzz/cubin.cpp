// Images of device kernels (cubins and fatbins). read_image() takes an image's size from its
// headers. Therefore a cubin is resized to the extent of its headers, and the size field of any
// other input is corrected.
#include <vector>

#include <elf.h>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/kernels/device_images.h"
#include "tests/fuzz/fuzz_input.h"

using namespace optrace;

/// Replaces the function that reads the GPU model to emulate from $OPTRACE_DRY_RUN.
const emulated::GpuModel& emulated::gpu_model() {
  static const GpuModel chosen = choose_gpu_model("sm_90").gpu_model;
  return chosen;
}

namespace {

/// Images whose headers or contents reach this far are not tested. In bytes.
constexpr std::size_t kRoom = std::size_t{1} << 16;

/// Returns the end of the parts that a cubin's headers refer to; kRoom or more if it is too far.
std::uint64_t extent(const std::vector<char>& image) {
  Elf64_Ehdr header{};
  std::memcpy(&header, image.data(), sizeof header);
  if (header.e_shoff >= kRoom || header.e_phoff >= kRoom) return kRoom;
  std::uint64_t end = std::max(header.e_shoff + header.e_shnum * sizeof(Elf64_Shdr),
                               header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr));
  for (unsigned i = 0; end < kRoom && i < header.e_shnum; ++i) {
    Elf64_Shdr section{};
    std::memcpy(&section, image.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_offset >= kRoom || section.sh_size >= kRoom) return kRoom;
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end;
}

}  // namespace

OPTRACE_READER(cubin) {
  if (size < 64 || size >= kRoom) return 0;
  std::vector<char> image(data, data + size);
  const bool is_elf = std::memcmp(image.data(), ELFMAG, SELFMAG) == 0;
  if (is_elf) {
    image.resize(2 * kRoom);
    const std::uint64_t end = extent(image);
    if (end >= kRoom) return 0;
    image.resize(std::max<std::uint64_t>(end, sizeof(Elf64_Ehdr)));
    image.shrink_to_fit();
  } else {
    std::uint16_t header_size = 0;
    std::memcpy(&header_size, image.data() + 6, sizeof header_size);
    if (header_size > size) return 0;
    const std::uint64_t rest = size - header_size;
    std::memcpy(image.data() + 8, &rest, sizeof rest);
  }
  const auto found = emulated::read_image(image.data());
  emulated::CubinFigures figures{};
  if (found) fuzz::use(found->figures("kernel", figures));
  return 0;
}
