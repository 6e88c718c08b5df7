#include "target/agent/recording/op_record_store.h"

#include <atomic>
#include <cstring>
#include <new>

#include <sys/mman.h>

#include "target/agent/process/system_calls.h"

namespace optrace::agent {
namespace {

// Address space in bytes; memory is allocated when it is written to.
constexpr std::uint64_t kStoreSize = 64ULL << 20;

// Linked into the list once it is complete, so that a child forked meanwhile does not see it.
struct Record {
  Record* next;
  std::uint64_t size;
  std::atomic<std::uint32_t> region;  // Serial of the region that contains it.
  recording::OpRecord header;
  const char* text() const { return reinterpret_cast<const char*>(this + 1); }
};

std::atomic<char*> store = nullptr;
std::atomic<std::uint64_t> store_used = 0;
std::atomic<Record*> last = nullptr;
std::atomic<std::uint32_t> next_id = 1;

std::atomic<bool> closed = false;  // True while all records are being removed.
std::atomic<int> keepers = 0;      // Number of threads that may be writing to the store.

// Registers the calling thread in `keepers`. Converts to false if the store must not be used.
class Keeper {
 public:
  Keeper() { keepers.fetch_add(1); }
  ~Keeper() { keepers.fetch_sub(1); }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  explicit operator bool() const { return !closed.load(); }
};

char* make_store() {
  char* memory = store.load();
  if (memory != nullptr) return memory;
  void* const fresh = mmap(nullptr, kStoreSize, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED) return nullptr;
  if (!store.compare_exchange_strong(memory, static_cast<char*>(fresh))) {
    munmap(fresh, kStoreSize);
    return memory;
  }
  return static_cast<char*>(fresh);
}

char* take_room(std::uint64_t size) {
  char* const memory = make_store();
  if (memory == nullptr || size > kStoreSize) return nullptr;
  const std::uint64_t room = (size + 7) / 8 * 8;
  std::uint64_t at = store_used.load();
  do {
    if (room > kStoreSize - at) return nullptr;
  } while (!store_used.compare_exchange_weak(at, at + room));
  return memory + at;
}

// Writes a record to a region. Only the first caller for that region does so.
bool put(Region& region, Record& record) {
  std::uint32_t has_it = record.region.load();
  if (has_it == region.serial || !record.region.compare_exchange_strong(has_it, region.serial))
    return true;
  const SignalsBlocked guard;
  void* const section = begin_section(region, sizeof(record.header) + record.size);
  if (section == nullptr) return false;
  std::memcpy(section, &record.header, sizeof(record.header));
  std::memcpy(static_cast<char*>(section) + sizeof(record.header), record.text(), record.size);
  complete_section(section, recording::SectionKind::op_record);
  return true;
}

}  // namespace

std::uint32_t new_op_record() {
  return next_id.fetch_add(1);
}

bool keep_op_record(std::uint32_t id, const char* text, std::uint64_t size) {
  const Keeper keeper;
  if (!keeper || size > kStoreSize) return false;
  char* const memory = take_room(sizeof(Record) + size);
  if (memory == nullptr) return false;
  auto* const record = new (memory) Record{nullptr, size, 0, {id, 0}};
  std::memcpy(memory + sizeof(Record), text, size);
  record->next = last.load();
  while (!last.compare_exchange_weak(record->next, record)) {
  }
  // Either a concurrent put_op_records sees the record, or this call sees its region.
  Region* const region = current_region();
  return !region_is_usable() || put(*region, *record);
}

void clear_op_records() {
  closed = true;
  if (keepers == 0) {  // Otherwise they stay until the next call.
    last = nullptr;
    if (const std::uint64_t used = store_used.exchange(0); used != 0)
      madvise(store.load(), used, MADV_DONTNEED);
  }
  closed = false;
}

void put_op_records(Region& region) {
  for (Record* record = last.load(); record != nullptr; record = record->next) put(region, *record);
}

}  // namespace optrace::agent
