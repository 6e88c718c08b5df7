#include "target/agent/probes/plan_reader.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "target/agent/process/own_file.h"

namespace optrace::agent {
namespace {

constexpr std::uint64_t kMaxPlanSize = 1ULL << 30;  // In bytes; a real plan has a few million.
constexpr std::uint32_t kMaxPathLength = 4096;
constexpr std::uint32_t kJumpSize = 5;
constexpr std::uint32_t kFirstUnusableId = 0xF0000000;

bool probe_is_sound(const plan::Probe& probe, const plan::Header& header) {
  const bool known_patch =
      probe.patch == plan::Patch::trap_only || probe.patch == plan::Patch::jump;
  const std::uint32_t patched = probe.patch == plan::Patch::jump ? kJumpSize : 1;
  const bool known_kind = probe.kind <= plan::ProbeKind::last;
  return known_patch && known_kind && probe.original_size <= sizeof(probe.original) &&
         probe.original_size >= patched && probe.displaced >= patched && probe.code_size > 0 &&
         std::uint64_t{probe.code_offset} + probe.code_size <= header.code_size &&
         std::uint64_t{probe.first_fixup} + probe.fixup_count <= header.fixup_count;
}

bool fixup_is_sound(const plan::Fixup& fixup, const plan::Probe& probe) {
  switch (fixup.kind) {
    case plan::FixupKind::relative32:
      return fixup.offset + 4U <= probe.code_size;
    case plan::FixupKind::absolute64:
      return fixup.offset + 8U <= probe.code_size;
  }
  return false;
}

}  // namespace

int parse_plan(const std::uint8_t* bytes, std::uint64_t size, PlanView& view) {
  if (size < sizeof(plan::Header)) return -EBADMSG;
  const auto* header = reinterpret_cast<const plan::Header*>(bytes);
  if (std::memcmp(header->magic, plan::kMagic, sizeof(plan::kMagic)) != 0) return -EBADMSG;
  if (header->version != plan::kVersion) return -EPROTONOSUPPORT;
  const std::uint64_t probes_at = sizeof(plan::Header);
  const std::uint64_t fixups_at =
      probes_at + std::uint64_t{header->probe_count} * sizeof(plan::Probe);
  const std::uint64_t code_at =
      fixups_at + std::uint64_t{header->fixup_count} * sizeof(plan::Fixup);
  const std::uint64_t path_at = code_at + header->code_size;
  if (header->build_id_size > plan::kMaxBuildIdLength || header->path_size > kMaxPathLength ||
      header->probe_count >= kFirstUnusableId || path_at + header->path_size != size ||
      XXH3_64bits(bytes + probes_at, size - probes_at) != header->checksum) {
    return -EBADMSG;
  }
  const auto* probes = reinterpret_cast<const plan::Probe*>(bytes + probes_at);
  const auto* fixups = reinterpret_cast<const plan::Fixup*>(bytes + fixups_at);
  for (std::uint32_t i = 0; i < header->probe_count; ++i) {
    const plan::Probe& probe = probes[i];
    if (!probe_is_sound(probe, *header)) return -EBADMSG;
    for (std::uint32_t j = 0; j < probe.fixup_count; ++j)
      if (!fixup_is_sound(fixups[probe.first_fixup + j], probe)) return -EBADMSG;
  }
  view = {header, probes, fixups, bytes + code_at, reinterpret_cast<const char*>(bytes + path_at)};
  return 0;
}

int load_plan(const char* path, PageArray<std::uint8_t>& bytes, PlanView& view) {
  const OwnFile file(path, O_RDONLY | O_NONBLOCK);
  if (!file) return file.number();
  struct stat status{};
  int result = fstat(file.number(), &status) == 0 ? 0 : -errno;
  if (result == 0 && (!S_ISREG(status.st_mode) || status.st_size <= 0 ||
                      static_cast<std::uint64_t>(status.st_size) > kMaxPlanSize)) {
    result = -EBADMSG;
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  PageArray<std::uint8_t> copy;
  if (result == 0 && !copy.allocate(size)) result = -ENOMEM;
  std::uint64_t done = 0;
  while (result == 0 && done < size) {
    const ssize_t got = read(file.number(), copy.data + done, size - done);
    if (got > 0)
      done += static_cast<std::uint64_t>(got);
    else if (got == 0)
      result = -EBADMSG;
    else if (errno != EINTR)
      result = -errno;
  }
  if (result == 0) result = parse_plan(copy.data, size, view);
  if (result == 0)
    bytes = copy;
  else
    copy.release();
  return result;
}

}  // namespace optrace::agent
