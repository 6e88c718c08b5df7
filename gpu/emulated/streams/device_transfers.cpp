#include "gpu/emulated/streams/device_transfers.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/memory/device_contents.h"
#include "gpu/emulated/memory/device_memory.h"

namespace optrace::emulated {

struct Pool {
  int device = 0;
  PoolUse use{};
  std::map<int, std::uint64_t> settings;
  std::unordered_map<void*, std::size_t> given;
};

namespace {

std::mutex pools_mutex;
const HeldAcrossFork<pools_mutex> pools_held;

struct Pools {
  std::unordered_map<Pool*, std::unique_ptr<Pool>> all;
  std::unordered_map<int, Pool*> defaults;
  std::unordered_set<void*> of_graphs;  // Released with the graph, even if they were freed before.
};

Pools& pools() {
  static auto* const pools = new Pools;
  return *pools;
}

/// Computes the number of bytes from the first to the last byte of rows that are `pitch` apart.
/// Returns false if that is invalid.
bool span(std::size_t width, std::size_t rows, std::size_t pitch, std::size_t& bytes) {
  bytes = 0;
  if (width == 0 || rows == 0) return true;
  if (rows > 1 && pitch < width) return false;
  if (rows > 1 && (rows - 1) > (std::numeric_limits<std::size_t>::max() - width) / pitch)
    return false;
  bytes = (rows - 1) * pitch + width;
  return true;
}

/// Returns true if the `bytes` bytes at `pointer` are in a device's memory or in the program's own.
/// A range may extend over adjacent allocations, such as expandable segments.
bool fits(const void* pointer, std::size_t bytes, Allocation& allocation, bool& known) {
  known = find_allocation(pointer, allocation);
  if (!known) return true;
  const auto* at = static_cast<const char*>(pointer);
  for (Allocation next = allocation;;) {
    const auto* const end = static_cast<const char*>(next.pointer) + next.bytes;
    const auto room = static_cast<std::size_t>(end - at);
    if (bytes <= room) return true;
    bytes -= room;
    at = end;
    if (!find_allocation(at, next)) return false;
  }
}

const char* name_of(Direction direction) {
  switch (direction) {
    case Direction::host_to_host:
      return "host to host";
    case Direction::host_to_device:
      return "host to device";
    case Direction::device_to_host:
      return "device to host";
    case Direction::device_to_device:
      return "device to device";
    case Direction::by_address:
      break;
  }
  return "by address";
}

bool on_device(bool known, const Allocation& allocation) {
  return known && allocation.kind != MemoryKind::pinned;
}

bool reads(Direction direction) {
  return direction == Direction::device_to_host || direction == Direction::device_to_device;
}
bool writes(Direction direction) {
  return direction == Direction::host_to_device || direction == Direction::device_to_device;
}

/// True for memory whose contents are tracked, because the host can't write to it directly.
bool is_tracked(bool known, const Allocation& allocation) {
  return known && allocation.kind == MemoryKind::device;
}

/// Copies one row. Between device memory, only the parts with contents are copied; the rest is
/// zeros on both sides.
void copy_row(char* to, const char* from, std::size_t width, bool from_tracked, bool to_tracked) {
  const bool overlap = to < from + width && from < to + width;
  if (!from_tracked || !to_tracked || overlap) {
    std::memmove(to, from, width);
    if (to_tracked) contents_written(to, width);
    return;
  }
  discard_contents(to, width);
  for (const ByteRange& range : contents_of(from, width)) {
    const std::size_t size = range.end - range.begin;
    const std::size_t offset = range.begin - reinterpret_cast<std::uintptr_t>(from);
    std::memcpy(to + offset, from + offset, size);
    contents_written(to + offset, size);
  }
  contents_copied(to, from, width);
}

void run(const Copy& copy, bool from_tracked, bool to_tracked) {
  auto* const to = static_cast<char*>(copy.to);
  const auto* const from = static_cast<const char*>(copy.from);
  if (copy.rows == 1 || (copy.to_pitch == copy.width && copy.from_pitch == copy.width)) {
    copy_row(to, from, copy.width * copy.rows, from_tracked, to_tracked);
    return;
  }
  for (std::size_t row = 0; row < copy.rows; ++row)
    copy_row(to + row * copy.to_pitch, from + row * copy.from_pitch, copy.width, from_tracked,
             to_tracked);
}

/// Returns true if the host has memory for the contents that a copy writes to device memory.
bool has_room_for(const Copy& copy, bool from_tracked, bool to_tracked) {
  if (!to_tracked) return true;
  std::size_t bytes = copy.width * copy.rows;
  if (from_tracked && copy.rows == 1) {
    bytes = 0;
    for (const ByteRange& range : contents_of(copy.from, copy.width))
      bytes += range.end - range.begin;
  }
  // Overwritten contents need no additional memory.
  for (const ByteRange& range : contents_of(copy.to, copy.width))
    bytes -= std::min<std::size_t>(bytes, range.end - range.begin);
  return bytes == 0 || has_room_for_contents(bytes);
}

template <typename Element>
void fill_elements(void* to, std::uint32_t value, std::size_t count) {
  const auto element = static_cast<Element>(value);
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(static_cast<char*>(to) + i * sizeof element, &element, sizeof element);
}

void run(const Fill& fill, bool tracked) {
  for (std::size_t row = 0; row < fill.rows; ++row) {
    void* const to = static_cast<char*>(fill.to) + row * fill.pitch;
    if (tracked && fill.value == 0) {
      contents_zeroed(to, fill.width * fill.element);
      continue;
    }
    if (tracked) contents_written(to, fill.width * fill.element);
    if (fill.element == 1 || fill.value == 0)
      fill_memory(to, static_cast<int>(fill.value & 0xFF), fill.width * fill.element);
    else if (fill.element == 2)
      fill_elements<std::uint16_t>(to, fill.value, fill.width);
    else
      fill_elements<std::uint32_t>(to, fill.value, fill.width);
  }
}

}  // namespace

Status make_copy(const Copy& copy, Direction direction, Operation& operation) {
  std::size_t to_bytes = 0;
  std::size_t from_bytes = 0;
  if (!span(copy.width, copy.rows, copy.to_pitch, to_bytes) ||
      !span(copy.width, copy.rows, copy.from_pitch, from_bytes))
    return Status::invalid_value;
  if (to_bytes != 0 && (copy.to == nullptr || copy.from == nullptr)) return Status::invalid_value;
  Allocation to{};
  Allocation from{};
  bool to_known = false;
  bool from_known = false;
  if (!fits(copy.to, to_bytes, to, to_known) || !fits(copy.from, from_bytes, from, from_known))
    return Status::invalid_value;
  if (direction == Direction::by_address) {
    const bool from_device = on_device(from_known, from);
    const bool to_device = on_device(to_known, to);
    direction = from_device ? to_device ? Direction::device_to_device : Direction::device_to_host
                : to_device ? Direction::host_to_device
                            : Direction::host_to_host;
  } else if (to_bytes != 0 &&
             ((reads(direction) && !from_known) || (writes(direction) && !to_known))) {
    return Status::invalid_value;  // A device can't access the program's own memory.
  }
  const bool from_tracked = is_tracked(from_known, from);
  const bool to_tracked = is_tracked(to_known, to);
  if (to_bytes != 0 && !has_room_for(copy, from_tracked, to_tracked)) return Status::out_of_memory;
  operation = {NodeKind::copy, "copy",
               [copy, from_tracked, to_tracked] {
                 if (copy.width != 0) run(copy, from_tracked, to_tracked);
               },
               [bytes = copy.width * copy.rows, direction](Call& call) {
                 call.json().key("bytes");
                 call.json().number(static_cast<std::uint64_t>(bytes));
                 call.json().key("direction");
                 call.json().string(name_of(direction));
                 if (direction != Direction::device_to_host) return;
                 call.json().key("host_read");
                 call.json().boolean(true);
               }};
  operation.work.emplace();
  operation.work->kind = Work::Kind::copy;
  operation.work->bytes = copy.width * copy.rows;
  operation.work->direction = static_cast<int>(direction);
  return Status::success;
}

Status copy(const Copy& copy, Direction direction, void* stream, const char* function) {
  Operation operation;
  const Status status = make_copy(copy, direction, operation);
  return status == Status::success ? submit(stream, function, std::move(operation)) : status;
}

Status make_fill(const Fill& fill, Operation& operation) {
  std::size_t bytes = 0;
  if (fill.element == 0 || fill.width > std::numeric_limits<std::size_t>::max() / fill.element ||
      !span(fill.width * fill.element, fill.rows, fill.pitch, bytes))
    return Status::invalid_value;
  Allocation allocation{};
  bool known = false;
  if (!fits(fill.to, bytes, allocation, known) || (bytes != 0 && !known))
    return Status::invalid_value;
  const bool tracked = is_tracked(known, allocation);
  if (tracked && fill.value != 0 && !has_room_for_contents(bytes)) return Status::out_of_memory;
  operation = {NodeKind::fill, "fill",
               [fill, bytes, tracked] {
                 if (bytes != 0) run(fill, tracked);
               },
               [total = fill.width * fill.element * fill.rows](Call& call) {
                 call.json().key("bytes");
                 call.json().number(static_cast<std::uint64_t>(total));
               }};
  operation.work.emplace();
  operation.work->kind = Work::Kind::fill;
  operation.work->bytes = fill.width * fill.element * fill.rows;
  return Status::success;
}

Status fill(const Fill& fill, void* stream, const char* function) {
  Operation operation;
  const Status status = make_fill(fill, operation);
  return status == Status::success ? submit(stream, function, std::move(operation)) : status;
}

Pool* create_pool(int device) {
  if (device < 0 || device >= device_count()) return nullptr;
  auto pool = std::make_unique<Pool>();
  pool->device = device;
  Pool* const made = pool.get();
  const std::lock_guard lock(pools_mutex);
  pools().all[made] = std::move(pool);
  return made;
}

Pool* default_pool(int device) {
  if (device < 0 || device >= device_count()) return nullptr;
  const std::lock_guard lock(pools_mutex);
  Pool*& known = pools().defaults[device];
  if (known == nullptr) {
    auto pool = std::make_unique<Pool>();
    pool->device = device;
    known = pool.get();
    pools().all[known] = std::move(pool);
  }
  return known;
}

Status destroy_pool(Pool* pool) {
  const std::lock_guard lock(pools_mutex);
  for (const auto& [device, known] : pools().defaults)
    if (known == pool) return Status::invalid_value;
  return pools().all.erase(pool) == 0 ? Status::invalid_value : Status::success;
}

Status allocate_from(Pool* pool, std::size_t bytes, void* stream, void*& pointer,
                     const char* function) {
  int device = 0;
  {
    const std::lock_guard lock(pools_mutex);
    if (pools().all.count(pool) == 0) return Status::invalid_value;
    device = pool->device;
  }
  bool captures = false;
  const Status status = capturing(stream, captures);
  if (status != Status::success) return status;
  pointer = nullptr;
  if (bytes == 0) return Status::success;
  void* const given = allocate(bytes, MemoryKind::device, device);
  if (given == nullptr) return Status::out_of_memory;
  pointer = given;
  if (captures) {
    // The memory now belongs to the graph.
    StreamState state{};
    const Status submitted = submit(stream, function, {NodeKind::allocate, nullptr, {}, {}});
    if (submitted != Status::success || stream_state(stream, state) != Status::success) {
      release(given);
      return submitted == Status::success ? Status::invalid_handle : submitted;
    }
    {
      const std::lock_guard lock(pools_mutex);
      pools().of_graphs.insert(given);
    }
    return keep_with_graph(state.graph, std::shared_ptr<void>(given, [](void* memory) {
                             {
                               const std::lock_guard lock(pools_mutex);
                               pools().of_graphs.erase(memory);
                             }
                             release(memory);
                           }));
  }
  const std::lock_guard lock(pools_mutex);
  if (pools().all.count(pool) == 0) return Status::success;
  pool->given[given] = bytes;
  pool->use.now += bytes;
  pool->use.most = std::max(pool->use.most, pool->use.now);
  return Status::success;
}

Status release_to_pool(void* pointer, void* stream) {
  bool captures = false;
  const Status status = capturing(stream, captures);
  if (status != Status::success) return status;
  if (pointer == nullptr) return Status::success;
  Allocation allocation{};
  if (!find_allocation(pointer, allocation) || allocation.pointer != pointer)
    return Status::invalid_value;
  if (captures) return submit(stream, "", {NodeKind::release, nullptr, {}, {}});
  {
    const std::lock_guard lock(pools_mutex);
    if (pools().of_graphs.count(pointer) != 0) return Status::success;
    for (auto& [key, pool] : pools().all) {
      const auto found = pool->given.find(pointer);
      if (found == pool->given.end()) continue;
      pool->use.now -= found->second;
      pool->given.erase(found);
      break;
    }
  }
  return release(pointer) ? Status::success : Status::invalid_value;
}

std::uint64_t graph_memory(int device) {
  std::vector<void*> of_graphs;
  {
    const std::lock_guard lock(pools_mutex);
    of_graphs.assign(pools().of_graphs.begin(), pools().of_graphs.end());
  }
  std::uint64_t sum = 0;
  for (void* const memory : of_graphs) {
    Allocation allocation{};
    if (find_allocation(memory, allocation) && allocation.device == device) sum += allocation.bytes;
  }
  return sum;
}

Status pool_use(Pool* pool, PoolUse& use) {
  const std::lock_guard lock(pools_mutex);
  if (pools().all.count(pool) == 0) return Status::invalid_value;
  use = pool->use;
  return Status::success;
}

Status reset_pool_high(Pool* pool) {
  const std::lock_guard lock(pools_mutex);
  if (pools().all.count(pool) == 0) return Status::invalid_value;
  pool->use.most = pool->use.now;
  return Status::success;
}

Status pool_setting(Pool* pool, int attribute, std::uint64_t& value) {
  const std::lock_guard lock(pools_mutex);
  if (pools().all.count(pool) == 0) return Status::invalid_value;
  value = pool->settings[attribute];
  return Status::success;
}

Status set_pool_setting(Pool* pool, int attribute, std::uint64_t value) {
  const std::lock_guard lock(pools_mutex);
  if (pools().all.count(pool) == 0) return Status::invalid_value;
  pool->settings[attribute] = value;
  return Status::success;
}

}  // namespace optrace::emulated
