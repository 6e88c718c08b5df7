#include "platform/elf/debug_file.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <elf.h>
#include <elfutils/libdwelf.h>
#include <fmt/core.h>
#include <gelf.h>

#include "platform/elf/read_at.h"

namespace optrace {
namespace {

// Decompressed debug info may have this size, and this multiple of the file's.
constexpr std::uint64_t kFreeDecompressed = 1 << 20;
constexpr std::uint64_t kMostDecompressed = 20;

bool is_supported(std::span<const std::byte> bytes) {
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  return header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
         header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
         header->e_machine == EM_X86_64 && (header->e_type == ET_DYN || header->e_type == ET_EXEC);
}

std::string build_id_of(Elf* elf) {
  const void* bytes = nullptr;
  const ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);
  std::string text;
  for (ssize_t i = 0; i < size; ++i)
    text += fmt::format("{:02x}", static_cast<const unsigned char*>(bytes)[i]);
  return text;
}

enum class Sections : std::uint8_t {
  unreadable,
  plain,
  compressed,  // Some are, and libelf will write their decompressed sizes into the headers.
};

// Examines whether the file has debug info that can be read with bounded memory and without opening
// other files, whose paths it would determine.
Sections examine_sections(Elf* elf, std::size_t file_size) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return Sections::unreadable;
  const std::uint64_t most = kFreeDecompressed + kMostDecompressed * file_size;
  std::uint64_t decompressed = 0;
  bool has_info = false;
  Sections found = Sections::plain;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) return Sections::unreadable;
    const char* const name = elf_strptr(elf, names, header.sh_name);
    if (name == nullptr) continue;
    const std::string_view text(name);
    if (text == ".gnu_debugaltlink" || text.starts_with(".zdebug")) return Sections::unreadable;
    if (text == ".debug_info" && header.sh_type != SHT_NOBITS) has_info = true;
    if ((header.sh_flags & SHF_COMPRESSED) == 0) continue;
    GElf_Chdr compressed;
    if (gelf_getchdr(section, &compressed) == nullptr || compressed.ch_size > most)
      return Sections::unreadable;
    decompressed += compressed.ch_size;
    found = Sections::compressed;
  }
  return has_info && decompressed <= most ? found : Sections::unreadable;
}

}  // namespace

std::vector<std::filesystem::path> debug_files(const ModuleSymbols& module) {
  constexpr std::size_t kLeastBuildId = 4;  // Hexadecimal digits.
  const std::filesystem::path separate = "/usr/lib/debug";
  std::vector<std::filesystem::path> files;
  const std::string& id = module.build_id();
  if (id.size() < kLeastBuildId) return files;
  if (module.has_debug_info()) files.push_back(module.path());
  std::vector<std::filesystem::path> installed = {separate / ".build-id" / id.substr(0, 2) /
                                                  (id.substr(2) + ".debug")};
  const std::string_view link = module.debug_link();
  if (!link.empty() && link.find('/') == std::string_view::npos && link != "." && link != "..") {
    std::error_code error;
    const auto folder = std::filesystem::absolute(module.path(), error).parent_path();
    installed.push_back(folder / link);
    installed.push_back(folder / ".debug" / link);
    installed.push_back(separate / folder.relative_path() / link);
  }
  for (const std::filesystem::path& file : installed) {
    std::error_code ignored;
    if (file != module.path() && std::filesystem::is_regular_file(file, ignored))
      files.push_back(file);
  }
  return files;
}

DebugFile::DebugFile(MappedFile file) : file_(std::move(file)) {}

std::unique_ptr<DebugFile> DebugFile::open(MappedFile file, const std::string& build_id) {
  std::unique_ptr<DebugFile> opened(new DebugFile(std::move(file)));
  return opened->start(build_id) ? std::move(opened) : nullptr;
}

bool DebugFile::start(const std::string& build_id) {
  const std::span<const std::byte> bytes = file_.bytes();
  if (!is_supported(bytes) || elf_version(EV_CURRENT) == EV_NONE) return false;
  // libelf writes only to the headers of compressed sections.
  char* image = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  elf_.reset(elf_memory(image, bytes.size()));
  if (elf_ == nullptr || build_id.empty() || build_id_of(elf_.get()) != build_id) return false;
  const Sections sections = examine_sections(elf_.get(), bytes.size());
  if (sections == Sections::unreadable) return false;
  if (sections == Sections::compressed) {
    copy_.assign(image, image + bytes.size());
    elf_.reset(elf_memory(copy_.data(), copy_.size()));
    // The file may have changed since.
    if (elf_ == nullptr || examine_sections(elf_.get(), copy_.size()) == Sections::unreadable)
      return false;
  }
  dwarf_.reset(dwarf_begin_elf(elf_.get(), DWARF_C_READ, nullptr));
  return dwarf_ != nullptr;
}

}  // namespace optrace
