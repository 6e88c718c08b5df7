// Built with -mgeneral-regs-only: callers.cpp looks up traps in the middle of an arbitrary
// function.

#include "target/agent/probes/trap_table.h"

#include <atomic>

#include "target/agent/process/pages.h"

namespace optrace::agent {
namespace {

constexpr std::uint64_t kSmallestTable = 1024;

// Hash table from entry to slot, open addressing, at most half full. One thread at a time writes
// it; handlers may read it at any time. Therefore an entry's slot is written before its key, and an
// outgrown table is kept.
struct Trap {
  std::atomic<std::uint64_t> entry;  // 0: free.
  std::atomic<std::uint64_t> slot;
};
struct Table {
  PageArray<Trap> traps;
  std::uint64_t used = 0;
};
constexpr int kMaxTables = 40;  // Each has twice the size of the last.
Table tables[kMaxTables];
int table_count = 0;
std::atomic<const Table*> current = nullptr;
std::atomic<std::uint32_t> version = 1;

std::uint64_t first_place(std::uint64_t entry, std::uint64_t capacity) {
  return (entry * 0x9E37'79B9'7F4A'7C15ULL) >> 20 & (capacity - 1);
}

void insert(Table& table, std::uint64_t entry, std::uint64_t slot) {
  const std::uint64_t capacity = table.traps.count;
  std::uint64_t i = first_place(entry, capacity);
  while (table.traps[i].entry.load(std::memory_order_relaxed) != 0) {
    if (table.traps[i].entry.load(std::memory_order_relaxed) == entry) {
      table.traps[i].slot.store(slot, std::memory_order_release);
      return;
    }
    i = (i + 1) & (capacity - 1);
  }
  table.traps[i].slot.store(slot, std::memory_order_relaxed);
  table.traps[i].entry.store(entry, std::memory_order_release);
  ++table.used;
}

}  // namespace

std::uint64_t find_trap(std::uint64_t entry) {
  const Table* const table = current.load(std::memory_order_acquire);
  if (table == nullptr) return 0;
  const std::uint64_t capacity = table->traps.count;
  for (std::uint64_t i = first_place(entry, capacity);; i = (i + 1) & (capacity - 1)) {
    const std::uint64_t found = table->traps[i].entry.load(std::memory_order_acquire);
    if (found == entry) return table->traps[i].slot.load(std::memory_order_relaxed);
    if (found == 0) return 0;
  }
}

bool reserve_traps(std::uint64_t count) {
  const std::uint64_t used = table_count == 0 ? 0 : tables[table_count - 1].used;
  if (table_count > 0 && (used + count) * 2 <= tables[table_count - 1].traps.count) return true;
  std::uint64_t capacity = kSmallestTable;
  while (capacity < (used + count) * 2) capacity *= 2;
  if (table_count == kMaxTables || !tables[table_count].traps.allocate(capacity)) return false;
  Table& table = tables[table_count];
  table.used = 0;
  if (table_count > 0) {
    const PageArray<Trap>& old = tables[table_count - 1].traps;
    for (std::uint64_t i = 0; i < old.count; ++i) {
      if (old[i].entry.load(std::memory_order_relaxed) != 0) {
        insert(table, old[i].entry.load(std::memory_order_relaxed),
               old[i].slot.load(std::memory_order_relaxed));
      }
    }
  }
  ++table_count;
  current.store(&table, std::memory_order_release);
  return true;
}

void add_trap(std::uint64_t entry, std::uint64_t slot) {
  insert(tables[table_count - 1], entry, slot);
  change_traps_version();
}

void change_traps_version() {
  version.fetch_add(1, std::memory_order_release);
}

std::uint32_t traps_version() {
  return version.load(std::memory_order_acquire);
}

void clear_traps() {
  current.store(nullptr, std::memory_order_release);
  change_traps_version();
  while (table_count > 0) {
    tables[--table_count].traps.release();
    tables[table_count].used = 0;
  }
}

}  // namespace optrace::agent
