#include "gpu/emulated/memory/device_contents.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>

#include <dlfcn.h>
#include <unistd.h>

#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/memory/device_memory.h"

namespace optrace::emulated {
namespace {

std::mutex contents_mutex;
const HeldAcrossFork<contents_mutex> contents_held;

struct Contents {
  ByteRanges written;
  ByteRanges zeroed;                                // Known to be zeros; disjoint from `written`.
  ByteRanges presumed;                              // The part of `written` that is not known.
  std::map<std::uintptr_t, std::uintptr_t> blocks;  // PyTorch's blocks: beginning to end.
};

Contents& contents() {
  static auto* const contents = new Contents;
  return *contents;
}

ByteRange range_of(const void* pointer, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  return {begin, begin + bytes};
}

constexpr std::uint64_t kMebibyteShift = 20;

/// Returns the control group's memory limit, or the largest number if there is none.
std::uint64_t control_group_limit() {
  unsigned long long bytes = 0;
  FILE* const file = std::fopen("/sys/fs/cgroup/memory.max", "re");
  const bool limited = file != nullptr && std::fscanf(file, "%20llu", &bytes) == 1;
  if (file != nullptr) std::fclose(file);
  return limited ? bytes : ~std::uint64_t{0};
}

std::uint64_t chosen_room() {
  if (const char* const setting = std::getenv("OPTRACE_DRY_RUN_HOST_MEMORY")) {
    char* end = nullptr;
    const unsigned long long mebibytes = std::strtoull(setting, &end, 10);
    if (end != setting && *end == '\0') return std::uint64_t{mebibytes} << kMebibyteShift;
  }
  const std::uint64_t machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(machine, control_group_limit()) / 2;
}

std::uint64_t room() {
  static const std::uint64_t room = chosen_room();
  return room;
}

bool fits_with(std::uint64_t bytes, std::uint64_t used) {
  return used <= room() && bytes <= room() - used;
}

std::uint64_t written_bytes() {
  const std::lock_guard lock(contents_mutex);
  return contents().written.bytes();
}

void add_block(std::uintptr_t begin, std::uintptr_t end) {
  const std::lock_guard lock(contents_mutex);
  contents().blocks[begin] = end;
}

void remove_block(std::uintptr_t begin) {
  const std::lock_guard lock(contents_mutex);
  contents().blocks.erase(begin);
}

}  // namespace

void contents_written(const void* pointer, std::size_t bytes) {
  const std::lock_guard lock(contents_mutex);
  contents().written.add(range_of(pointer, bytes));
  contents().zeroed.remove(range_of(pointer, bytes));
  contents().presumed.remove(range_of(pointer, bytes));
}

void contents_presumed(const void* pointer, std::size_t bytes) {
  contents_written(pointer, bytes);
  const std::lock_guard lock(contents_mutex);
  contents().presumed.add(range_of(pointer, bytes));
}

void contents_copied(const void* to, const void* from, std::size_t bytes) {
  const ByteRange source = range_of(from, bytes);
  const std::uintptr_t moved = reinterpret_cast<std::uintptr_t>(to) - source.begin;
  const std::lock_guard lock(contents_mutex);
  for (ByteRanges* const ranges : {&contents().zeroed, &contents().presumed})
    for (const ByteRange& range : ranges->inside(source))
      ranges->add({range.begin + moved, range.end + moved});
}

void contents_zeroed(const void* pointer, std::size_t bytes) {
  discard_contents(pointer, bytes);
  const std::lock_guard lock(contents_mutex);
  contents().zeroed.add(range_of(pointer, bytes));
}

void discard_contents(const void* pointer, std::size_t bytes) {
  std::vector<ByteRange> forgotten;
  {
    const std::lock_guard lock(contents_mutex);
    forgotten = contents().written.remove(range_of(pointer, bytes));
    contents().zeroed.remove(range_of(pointer, bytes));
    contents().presumed.remove(range_of(pointer, bytes));
  }
  for (const ByteRange& range : forgotten)
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    fill_memory(reinterpret_cast<void*>(range.begin), 0, range.end - range.begin);
}

void discard_matrices(void* pointer, const Columns& columns, std::size_t count,
                      std::size_t stride) {
  if (columns.bytes == 0 || columns.count == 0) return;
  const std::size_t matrix = (columns.count - 1) * columns.pitch + columns.bytes;
  for (std::size_t i = 0; i < count; ++i) {
    char* const begin = static_cast<char*>(pointer) + i * stride;
    // Most matrices have no contents.
    if (contents_of(begin, matrix).empty() && known_of(begin, matrix).empty()) continue;
    for (std::size_t j = 0; j < columns.count; ++j)
      discard_contents(begin + j * columns.pitch, columns.bytes);
  }
}

void drop_contents(const void* pointer, std::size_t bytes) {
  const std::lock_guard lock(contents_mutex);
  contents().written.remove(range_of(pointer, bytes));
  contents().zeroed.remove(range_of(pointer, bytes));
  contents().presumed.remove(range_of(pointer, bytes));
}

std::vector<ByteRange> contents_of(const void* pointer, std::size_t bytes) {
  const std::lock_guard lock(contents_mutex);
  return contents().written.inside(range_of(pointer, bytes));
}

std::vector<ByteRange> known_of(const void* pointer, std::size_t bytes) {
  const ByteRange whole = range_of(pointer, bytes);
  ByteRanges known;
  {
    const std::lock_guard lock(contents_mutex);
    for (const ByteRange& range : contents().written.inside(whole)) known.add(range);
    for (const ByteRange& range : contents().zeroed.inside(whole)) known.add(range);
    for (const ByteRange& range : contents().presumed.inside(whole)) known.remove(range);
  }
  return known.inside(whole);
}

bool has_room_for_contents(std::size_t bytes) {
  return fits_with(bytes, written_bytes());
}

bool may_be_given_out(std::size_t bytes) {
  const std::uint64_t used = written_bytes();
  return used <= room() / 2 || fits_with(bytes, used);
}

std::size_t bytes_of_block_from(const void* pointer) {
  Allocation allocation{};
  if (!find_allocation(pointer, allocation) || allocation.kind != MemoryKind::device) return 0;
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  {
    const std::lock_guard lock(contents_mutex);
    const auto next = contents().blocks.upper_bound(at);
    if (next != contents().blocks.begin() && std::prev(next)->second > at)
      return std::prev(next)->second - at;
  }
  return allocation.bytes - (at - reinterpret_cast<std::uintptr_t>(allocation.pointer));
}

void library_wrote(const void* pointer) {
  if (const std::size_t bytes = bytes_of_block_from(pointer); bytes != 0)
    discard_contents(pointer, bytes);
}

}  // namespace optrace::emulated

// PyTorch's caching allocator reuses memory without calling CUDA. However, it reports each block to
// c10::reportMemoryUsageToProfiler, which libc10_cuda imports from libc10. The definition here
// takes precedence; it records the block and then calls libc10's by a tail call, with the same
// registers and stack.

extern "C" {

constexpr const char* kReport = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";

/// Records a block if it belongs to a CUDA device; `bytes` is negative when the block is freed.
/// Returns libc10's own function, or null if there is none.
__attribute__((visibility("hidden"), used)) void* optrace_device_note_block(void* pointer,
                                                                            std::int64_t bytes,
                                                                            std::uint64_t device) {
  using namespace optrace::emulated;
  // c10::Device contains its type, then its index, one byte each.
  constexpr std::uint64_t kType = 0xFF;
  constexpr std::uint64_t kCuda = 1;
  if ((device & kType) == kCuda && pointer != nullptr && bytes != 0) {
    const auto size = static_cast<std::size_t>(bytes < 0 ? -bytes : bytes);
    const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
    // The previous contents belonged to another block.
    discard_contents(pointer, size);
    if (bytes > 0)
      add_block(begin, begin + size);
    else
      remove_block(begin);
  }
  static void* const real = [] {
    void* const library = ::dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
    return library == nullptr ? nullptr : ::dlsym(library, kReport);
  }();
  return real;
}

}  // extern "C"

asm(R"(
  .text
  .globl _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
  .type _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE, @function
_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  pushq %rcx
  .cfi_adjust_cfa_offset 8
  pushq %r8
  .cfi_adjust_cfa_offset 8
  movq %r8, %rdx
  call optrace_device_note_block
  popq %r8
  .cfi_adjust_cfa_offset -8
  popq %rcx
  .cfi_adjust_cfa_offset -8
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  je 1f
  jmp *%rax
1:
  ret
  .cfi_endproc
  .size _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE, .-_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
)");
