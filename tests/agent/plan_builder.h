#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <xxhash.h>

#include "target/interface/plan_format.h"

namespace optrace::test {

/// Builds by hand the probe plans that the planner would make for functions that are known byte by
/// byte.
class PlanBuilder {
 public:
  /// Starts a plan for the loaded module that contains `address`, and sets `bias`.
  explicit PlanBuilder(const void* address) {
    Dl_info info{};
    struct link_map* map = nullptr;
    dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
    path = map->l_name;
    bias = map->l_addr;
    dl_iterate_phdr(
        [](dl_phdr_info* module, std::size_t, void* argument) {
          auto& builder = *static_cast<PlanBuilder*>(argument);
          if (module->dlpi_addr == builder.bias && builder.path == module->dlpi_name) {
            builder.read_build_id(*module);
          }
          return 0;
        },
        this);
  }

  /// Adds a probe at `entry` (a run-time address). `code` replaces the first `displaced` bytes.
  /// Appends a jump to the address after them unless `returns` is true. Targets of fixups are
  /// run-time addresses.
  PlanBuilder& add(const void* entry, plan::Patch patch, std::uint8_t displaced,
                   std::vector<std::uint8_t> code, std::vector<plan::Fixup> code_fixups = {},
                   bool returns = false) {
    plan::Probe probe{};
    const auto at = reinterpret_cast<std::uint64_t>(entry);
    if (!returns) {
      code.push_back(0xe9);
      code_fixups.push_back({at + displaced, static_cast<std::uint16_t>(code.size()),
                             plan::FixupKind::relative32, 0, 0});
      code.insert(code.end(), 4, 0);
    }
    probe.address = at - bias;
    probe.code_offset = static_cast<std::uint32_t>(all_code.size());
    probe.first_fixup = static_cast<std::uint32_t>(fixups.size());
    probe.code_size = static_cast<std::uint16_t>(code.size());
    probe.fixup_count = static_cast<std::uint16_t>(code_fixups.size());
    probe.displaced = displaced;
    probe.patch = patch;
    probe.original_size = displaced < sizeof(probe.original)
                              ? displaced
                              : static_cast<std::uint8_t>(sizeof(probe.original));
    std::memcpy(probe.original, entry, probe.original_size);
    for (plan::Fixup& fixup : code_fixups) {
      fixup.target -= bias;
      fixups.push_back(fixup);
    }
    all_code.insert(all_code.end(), code.begin(), code.end());
    probes.push_back(probe);
    return *this;
  }

  /// Adds a probe whose displaced instructions are position-independent.
  PlanBuilder& add_plain(const void* entry, std::uint8_t displaced,
                         plan::Patch patch = plan::Patch::jump) {
    const auto* bytes = static_cast<const std::uint8_t*>(entry);
    return add(entry, patch, displaced, std::vector<std::uint8_t>(bytes, bytes + displaced));
  }

  /// Returns the bytes of the plan, with the probes sorted by address.
  std::vector<std::uint8_t> bytes() const {
    std::vector<plan::Probe> sorted = probes;
    std::sort(sorted.begin(), sorted.end(),
              [](const plan::Probe& a, const plan::Probe& b) { return a.address < b.address; });
    std::vector<std::uint8_t> out(sizeof(plan::Header));
    append(out, sorted.data(), sorted.size() * sizeof(plan::Probe));
    append(out, fixups.data(), fixups.size() * sizeof(plan::Fixup));
    append(out, all_code.data(), all_code.size());
    append(out, path.data(), path.size());
    plan::Header header{};
    std::memcpy(header.magic, plan::kMagic, sizeof(header.magic));
    header.version = plan::kVersion;
    header.build_id_size = static_cast<std::uint32_t>(build_id.size());
    std::memcpy(header.build_id, build_id.data(), build_id.size());
    header.probe_count = static_cast<std::uint32_t>(probes.size());
    header.fixup_count = static_cast<std::uint32_t>(fixups.size());
    header.code_size = static_cast<std::uint32_t>(all_code.size());
    header.path_size = static_cast<std::uint32_t>(path.size());
    header.checksum = XXH3_64bits(out.data() + sizeof(header), out.size() - sizeof(header));
    std::memcpy(out.data(), &header, sizeof(header));
    return out;
  }

  /// Recomputes the checksum of a plan that a test has changed.
  static void seal(std::vector<std::uint8_t>& plan_bytes) {
    const std::uint64_t checksum = XXH3_64bits(plan_bytes.data() + sizeof(plan::Header),
                                               plan_bytes.size() - sizeof(plan::Header));
    std::memcpy(plan_bytes.data() + offsetof(plan::Header, checksum), &checksum, sizeof(checksum));
  }

  void save(const std::filesystem::path& file) const { save(file, bytes()); }
  static void save(const std::filesystem::path& file, const std::vector<std::uint8_t>& content) {
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()),
               static_cast<std::streamsize>(content.size()));
  }

  std::string path;
  std::uint64_t bias = 0;
  std::vector<std::uint8_t> build_id;
  std::vector<plan::Probe> probes;
  std::vector<plan::Fixup> fixups;
  std::vector<std::uint8_t> all_code;

 private:
  static void append(std::vector<std::uint8_t>& out, const void* from, std::size_t size) {
    const auto* at = static_cast<const std::uint8_t*>(from);
    out.insert(out.end(), at, at + size);
  }

  void read_build_id(const dl_phdr_info& module) {
    for (int i = 0; i < module.dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = module.dlpi_phdr[i];
      if (segment.p_type != PT_NOTE || !build_id.empty()) {
        continue;
      }
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      const auto* at = reinterpret_cast<const std::uint8_t*>(bias + segment.p_vaddr);
      const auto* const end = at + segment.p_memsz;
      while (at + sizeof(ElfW(Nhdr)) <= end) {
        ElfW(Nhdr) note{};
        std::memcpy(&note, at, sizeof(note));
        const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
        const auto* const description = at + sizeof(note) + padded(note.n_namesz);
        if (note.n_type == NT_GNU_BUILD_ID) {
          build_id.assign(description, description + note.n_descsz);
          return;
        }
        at = description + padded(note.n_descsz);
      }
    }
  }
};

}  // namespace optrace::test
