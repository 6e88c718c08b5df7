#include "gpu/emulated/kernels/device_images.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <elf.h>

#include "gpu/emulated/device/device.h"

namespace optrace::emulated {
namespace {

using Bytes = std::string_view;

// Far more than the size of any image in use.
constexpr std::uint64_t kMaxBytes = 1ULL << 31;

constexpr std::uint32_t kFatbinMagic = 0xBA55ED50;

struct FatbinHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_size;
  std::uint64_t size;  // Without the header.
};

struct FatbinEntry {
  std::uint16_t kind;  // 1: PTX, 2: machine code.
  std::uint16_t version;
  std::uint32_t header_size;
  std::uint64_t size;             // Without the header, with padding.
  std::uint32_t compressed_size;  // Without the padding.
  std::uint32_t unknown;
  std::uint16_t minor;
  std::uint16_t major;
  std::uint32_t arch;
  std::uint32_t name_offset;
  std::uint32_t name_size;
  std::uint64_t flags;
  std::uint64_t zero;
  std::uint64_t uncompressed_size;
};
static_assert(sizeof(FatbinHeader) == 16 && sizeof(FatbinEntry) == 64);

constexpr std::uint16_t kMachineCode = 2;
constexpr std::uint64_t kLz4 = 0x2000;
constexpr std::uint64_t kZstd = 0x8000;
// Set for code such as sm_90a's, which runs on no other architecture. (Code for a family, such as
// sm_100f, runs wherever sm_100 code does.)
constexpr std::uint64_t kArchSpecific = 0x100000;

template <typename T>
bool read_at(Bytes bytes, std::uint64_t at, T& value) {
  if (at > bytes.size() || bytes.size() - at < sizeof value) return false;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return true;
}

/// Returns an empty range if it would be outside.
Bytes part_of(Bytes bytes, std::uint64_t at, std::uint64_t size) {
  if (at > bytes.size() || bytes.size() - at < size) return {};
  return bytes.substr(at, size);
}

int architecture_version() {
  return gpu_model().major * 10 + gpu_model().minor;
}

/// Rates how well code for an architecture suits the GPU model: 0 if it can't run, otherwise higher
/// is better.
int suits(int arch, std::uint64_t flags) {
  const int here = architecture_version();
  constexpr int kSpecific = 1000;
  if ((flags & kArchSpecific) != 0) return arch == here ? kSpecific : 0;
  if (arch / 10 != here / 10 || arch > here) return 0;
  return arch;
}

struct Chosen {
  FatbinEntry entry{};
  Bytes payload;
};

/// Finds the fatbin's machine code that the GPU model would run. Returns false if there is none.
bool choose(const void* image, Chosen& chosen) {
  FatbinHeader header{};
  std::memcpy(&header, image, sizeof header);
  if (header.header_size < sizeof header || header.size > kMaxBytes) return false;
  const Bytes bytes{static_cast<const char*>(image) + header.header_size, header.size};
  int best = 0;
  for (std::uint64_t at = 0;;) {
    FatbinEntry entry{};
    if (!read_at(bytes, at, entry) || entry.header_size < sizeof entry) break;
    const Bytes payload = part_of(bytes, at + entry.header_size, entry.size);
    if (payload.size() != entry.size) break;
    const int grade = entry.kind == kMachineCode && entry.arch < 1000
                          ? suits(static_cast<int>(entry.arch), entry.flags)
                          : 0;
    if (grade > best) {
      best = grade;
      chosen = {entry, payload};
    }
    at += std::uint64_t{entry.header_size} + entry.size;
  }
  return best > 0;
}

/// Returns a function of a system library, or null if it is not available.
template <typename Function>
Function library_function(const char* library, const char* name) {
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  return handle == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(handle, name));
}

bool lz4(Bytes from, std::string& to) {
  // LZ4's block format: sequences of literals and matches, as specified in lz4_Block_format.md.
  std::size_t in = 0;
  std::size_t out = 0;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(from[at]); };
  const auto extended = [&](std::size_t& length) {
    constexpr std::size_t kMore = 15;
    constexpr unsigned char kAll = 255;
    if (length != kMore) return true;
    for (;;) {
      if (in >= from.size()) return false;
      const unsigned char more = byte(in++);
      length += more;
      if (more != kAll) return true;
    }
  };
  while (in < from.size()) {
    const unsigned token = byte(in++);
    std::size_t literals = token >> 4;
    if (!extended(literals)) return false;
    if (literals > from.size() - in || literals > to.size() - out) return false;
    std::memcpy(to.data() + out, from.data() + in, literals);
    in += literals;
    out += literals;
    if (in == from.size()) break;  // The last sequence contains literals only.
    if (from.size() - in < 2) return false;
    const std::size_t distance = byte(in) | static_cast<std::size_t>(byte(in + 1)) << 8;
    in += 2;
    constexpr unsigned kLow = 15;
    constexpr std::size_t kMinMatchLength = 4;
    std::size_t match = token & kLow;
    if (!extended(match)) return false;
    match += kMinMatchLength;
    if (distance == 0 || distance > out || match > to.size() - out) return false;
    for (std::size_t i = 0; i < match; ++i, ++out) to[out] = to[out - distance];
  }
  return out == to.size();
}

bool zstd(Bytes from, std::string& to) {
  using Decompress = std::size_t (*)(void*, std::size_t, const void*, std::size_t);
  static const auto decompress = [] {
    const auto found = library_function<Decompress>("libzstd.so.1", "ZSTD_decompress");
    if (found == nullptr)
      std::fputs("optrace: kernels' figures can't be read without libzstd.so.1: install zstd\n",
                 stderr);
    return found;
  }();
  return decompress != nullptr &&
         decompress(to.data(), to.size(), from.data(), from.size()) == to.size();
}

/// Returns the machine code. `kept` owns it if it was compressed.
Bytes unpack(const Chosen& chosen, std::string& kept) {
  if ((chosen.entry.flags & (kLz4 | kZstd)) == 0) return chosen.payload;
  if (chosen.entry.uncompressed_size > kMaxBytes) return {};
  const Bytes packed = part_of(chosen.payload, 0, chosen.entry.compressed_size);
  kept.resize(chosen.entry.uncompressed_size);
  const bool whole = (chosen.entry.flags & kLz4) != 0 ? lz4(packed, kept) : zstd(packed, kept);
  return whole ? Bytes(kept) : Bytes();
}

bool is_fatbin(const void* image) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  return magic == kFatbinMagic;
}

bool is_cubin(const void* image) {
  constexpr std::uint16_t kCudaMachine = 190;
  Elf64_Ehdr header{};
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) return false;
  std::memcpy(&header, image, sizeof header);
  return header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == kCudaMachine;
}

/// Returns the architecture that a cubin was compiled for.
int cubin_arch(const Elf64_Ehdr& header) {
  // In the second byte of the flags since CUDA 13, before that in the first one.
  constexpr unsigned char kNewLayout = 8;
  constexpr unsigned kByte = 0xFF;
  const unsigned flags = header.e_flags;
  return static_cast<int>(header.e_ident[EI_ABIVERSION] >= kNewLayout ? flags >> 8 & kByte
                                                                      : flags & kByte);
}

/// Returns the bytes of a cubin of unknown size, whose end is determined from its headers.
Bytes whole_cubin(const void* image) {
  Elf64_Ehdr header{};
  std::memcpy(&header, image, sizeof header);
  std::uint64_t end =
      std::max<std::uint64_t>(header.e_shoff + std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr),
                              header.e_phoff + std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
  if (end > kMaxBytes) return {};
  const Bytes headers{static_cast<const char*>(image), end};
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section{};
    if (!read_at(headers, header.e_shoff + i * sizeof section, section)) return {};
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  if (end > kMaxBytes) return {};
  return {static_cast<const char*>(image), end};
}

}  // namespace

/// Extracts properties of kernels from a cubin: sections `.text.KERNEL`, `.nv.shared.KERNEL`,
/// `.nv.info.KERNEL` and the module's `.nv.info`, whose attributes are named EIATTR_* by cuobjdump.
class CubinReader {
 public:
  explicit CubinReader(Bytes cubin) : cubin_(cubin) {}

  std::shared_ptr<const KernelImage> read(int arch) {
    if (!read_at(cubin_, 0, header_) || header_.e_shentsize != sizeof(Elf64_Shdr)) return nullptr;
    for (unsigned i = 0; i < header_.e_shnum; ++i) {
      Elf64_Shdr section{};
      if (!read_at(cubin_, header_.e_shoff + i * sizeof section, section)) return nullptr;
      sections_.push_back(section);
    }
    if (header_.e_shstrndx >= sections_.size()) return nullptr;
    const Bytes names = content(sections_[header_.e_shstrndx]);
    std::size_t constant = 0;
    for (const Elf64_Shdr& section : sections_) {
      const Bytes name = text_at(names, section.sh_name);
      if (name.substr(0, kText.size()) == kText && (section.sh_flags & SHF_EXECINSTR) != 0) {
        CubinFigures& kernel = image_->kernels_[std::string(name.substr(kText.size()))];
        kernel.binary_version = arch;
        kernel.ptx_version = arch;
        kernel.registers = static_cast<int>(section.sh_info >> 24);
      }
      if (name == ".nv.constant3") constant = section.sh_size;
      if (section.sh_type == SHT_SYMTAB) symbols_ = &section;
    }
    for (const Elf64_Shdr& section : sections_) {
      const Bytes name = text_at(names, section.sh_name);
      if (name == ".nv.info")
        module_attributes(content(section));
      else if (CubinFigures* const shared = of(name, ".nv.shared."))
        shared->shared = section.sh_size - reserve_in(section.sh_size, arch);
      else if (CubinFigures* const info = of(name, ".nv.info."))
        kernel_attributes(content(section), *info);
    }
    for (auto& [name, kernel] : image_->kernels_) kernel.constant = constant;
    return image_;
  }

 private:
  static constexpr Bytes kText = ".text.";

  // Kinds of attributes, and formats of their values.
  static constexpr unsigned char kMaxThreads = 0x05;
  static constexpr unsigned char kRequiredThreads = 0x10;
  static constexpr unsigned char kFrameSize = 0x11;
  static constexpr unsigned char kParameter = 0x17;
  static constexpr unsigned char kRegisters = 0x2F;
  static constexpr unsigned char kSized = 4;

  Bytes content(const Elf64_Shdr& section) const {
    return section.sh_type == SHT_NOBITS ? Bytes()
                                         : part_of(cubin_, section.sh_offset, section.sh_size);
  }

  static Bytes text_at(Bytes texts, std::uint64_t at) {
    if (at >= texts.size()) return {};
    const Bytes rest = texts.substr(at);
    const std::size_t end = rest.find('\0');
    return end == Bytes::npos ? Bytes() : rest.substr(0, end);
  }

  CubinFigures* of(Bytes section, Bytes prefix) {
    if (section.substr(0, prefix.size()) != prefix) return nullptr;
    const auto found = image_->kernels_.find(std::string(section.substr(prefix.size())));
    return found == image_->kernels_.end() ? nullptr : &found->second;
  }

  /// Returns the size of the system's reserve at the start of a section `.nv.shared.KERNEL`. It
  /// exists since sm_90 and is included in cuobjdump's output, but the driver does not count it as
  /// the kernel's.
  static std::size_t reserve_in(std::size_t size, int arch) {
    constexpr int kFirst = 90;
    constexpr std::size_t kReserve = 1024;
    return arch >= kFirst && size >= kReserve ? kReserve : 0;
  }

  CubinFigures* of_symbol(std::uint32_t index) {
    if (symbols_ == nullptr || symbols_->sh_link >= sections_.size()) return nullptr;
    Elf64_Sym symbol{};
    if (!read_at(content(*symbols_), std::uint64_t{index} * sizeof symbol, symbol)) return nullptr;
    const Bytes name = text_at(content(sections_[symbols_->sh_link]), symbol.st_name);
    const auto found = image_->kernels_.find(std::string(name));
    return found == image_->kernels_.end() ? nullptr : &found->second;
  }

  /// Calls `take` with the kind and content of each attribute that has a size.
  template <typename Take>
  static void each_attribute(Bytes bytes, Take take) {
    for (std::size_t at = 0; bytes.size() - at >= 4;) {
      const auto format = static_cast<unsigned char>(bytes[at]);
      const auto kind = static_cast<unsigned char>(bytes[at + 1]);
      std::uint16_t size = 0;
      std::memcpy(&size, bytes.data() + at + 2, sizeof size);
      at += 4;
      if (format != kSized) continue;
      if (size > bytes.size() - at) return;
      take(kind, bytes.substr(at, size));
      at += size;
    }
  }

  void module_attributes(Bytes bytes) {
    each_attribute(bytes, [this](unsigned char kind, Bytes value) {
      std::uint32_t symbol = 0;
      std::uint32_t number = 0;
      if ((kind != kRegisters && kind != kFrameSize) || !read_at(value, 0, symbol) ||
          !read_at(value, sizeof symbol, number))
        return;
      CubinFigures* const kernel = of_symbol(symbol);
      if (kernel == nullptr) return;
      if (kind == kRegisters) kernel->registers = static_cast<int>(number & 0xFFFF);
      if (kind == kFrameSize) kernel->local = number;
    });
  }

  /// The value consists of an index, the parameter's number and offset (16 bits each), and a word
  /// whose upper bits are the size.
  static void add_parameter(Bytes value, CubinFigures& kernel) {
    constexpr std::uint64_t kNumberAt = 4;
    constexpr std::uint64_t kSizeAt = 8;
    constexpr unsigned kSizeShift = 18;
    constexpr std::uint16_t kMax = 1024;
    std::uint16_t number = 0;
    std::uint32_t word = 0;
    if (!read_at(value, kNumberAt, number) || !read_at(value, kSizeAt, word) || number >= kMax)
      return;
    if (kernel.parameters.size() <= number) kernel.parameters.resize(number + std::size_t{1});
    kernel.parameters[number] = word >> kSizeShift;
  }

  static void kernel_attributes(Bytes bytes, CubinFigures& kernel) {
    each_attribute(bytes, [&kernel](unsigned char kind, Bytes value) {
      if (kind == kParameter) {
        add_parameter(value, kernel);
        return;
      }
      std::uint32_t threads[3] = {};
      constexpr std::uint32_t kMax = 1024;
      if ((kind != kMaxThreads && kind != kRequiredThreads) || !read_at(value, 0, threads)) return;
      std::uint32_t product = 1;
      for (const std::uint32_t count : threads) product *= std::clamp(count, 1U, kMax);
      kernel.max_threads = static_cast<int>(std::min(product, kMax));
    });
  }

  Bytes cubin_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  const Elf64_Shdr* symbols_ = nullptr;
  std::shared_ptr<KernelImage> image_ = std::make_shared<KernelImage>();
};

bool is_ptx(const void* image) {
  // PTX is text that begins with a comment or the `.version` directive.
  const char first = *static_cast<const char*>(image);
  return first == '/' || first == '.' || first == '\n' || first == ' ';
}

bool has_image_for_gpu_model(const void* image) {
  if (image == nullptr) return false;
  if (is_fatbin(image)) {
    Chosen chosen;
    return choose(image, chosen);
  }
  if (!is_cubin(image)) return false;
  Elf64_Ehdr header{};
  std::memcpy(&header, image, sizeof header);
  // The header does not show if the code is architecture-specific, so only the major version is
  // checked.
  return suits(cubin_arch(header), 0) > 0;
}

std::shared_ptr<const KernelImage> read_image(const void* image) {
  if (!has_image_for_gpu_model(image)) return nullptr;
  if (is_cubin(image)) {
    Elf64_Ehdr header{};
    std::memcpy(&header, image, sizeof header);
    return CubinReader(whole_cubin(image)).read(cubin_arch(header));
  }
  Chosen chosen;
  std::string kept;
  if (!choose(image, chosen)) return nullptr;
  return CubinReader(unpack(chosen, kept)).read(static_cast<int>(chosen.entry.arch));
}

}  // namespace optrace::emulated
