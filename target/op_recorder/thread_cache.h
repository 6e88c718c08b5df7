#pragma once

#include <cstddef>
#include <cstdint>

#include <ATen/record_function.h>

#include "target/op_recorder/callees.h"
#include "target/op_recorder/repeated_calls.h"
#include "target/op_recorder/tensors/tensor_log.h"
#include "target/recorder/fingerprint.h"
#include "target/recorder/json_text.h"
#include "target/recorder/record_store.h"

namespace optrace_ops {

/// The records of all threads. Never destroyed, because threads may run ops until the process ends.
inline RecordStore& records() {
  static RecordStore& records = *new RecordStore;
  return records;
}

/// Cache of one thread's lookups, so that a repeated call takes no lock.
class ThreadCache {
 public:
  /// Returns null while the thread is being destroyed.
  static ThreadCache* get() {
    static thread_local ThreadCache* cache = nullptr;
    static thread_local bool gone = false;
    if (cache == nullptr && !gone) {
      struct Owner {
        ~Owner() {
          delete cache;
          cache = nullptr;
          gone = true;
        }
      };
      static thread_local Owner owner;
      static_cast<void>(&owner);
      cache = new ThreadCache;
    }
    return cache;
  }

  /// Returns the id of the record with this fingerprint, or 0 if there is no room. `write` adds the
  /// keys and values of a new one.
  template <typename Write>
  std::uint32_t id_of(const Fingerprint& fingerprint, std::uint32_t recording, Callee* callee,
                      Write write) {
    Known& known = known_[fingerprint.high() % kKnown];
    if (known.recording == recording && known.fingerprint == fingerprint) return known.id;
    const RecordStore::Record record = records().record_of(recording, fingerprint, [&] {
      JsonText json;
      json.open('{');
      write(json);
      json.close('}');
      return json.text();
    });
    if (record.is_new && callee != nullptr) callee->records.fetch_add(1, std::memory_order_relaxed);
    known = {fingerprint, recording, record.id};
    return record.id;
  }

  SeenCalls& seen_calls() { return seen_calls_; }

  /// The number of ops and autograd nodes that the thread is in.
  std::uint32_t depth = 0;
  LoggedThread log;

  Callee* callee_of(const at::RecordFunction& function) {
    const char* const name = function.name();
    KnownOp& known = ops_[(reinterpret_cast<std::uintptr_t>(name) >> 4U) % kKnownOps];
    if (known.name == name && Callees::is_overload_of(*known.callee, name)) return known.callee;
    Callee* const callee = Callees::get().callee_of(function);
    if (callee != nullptr && !callee->schema.empty()) known = {name, callee};
    return callee;
  }

 private:
  static constexpr std::size_t kKnown = 1024;
  static constexpr std::size_t kKnownOps = 256;
  struct Known {
    Fingerprint fingerprint;
    std::uint32_t recording = 0;
    std::uint32_t id = 0;
  };
  struct KnownOp {
    const char* name = nullptr;
    Callee* callee = nullptr;
  };

  Known known_[kKnown];
  KnownOp ops_[kKnownOps];
  SeenCalls seen_calls_;
};

}  // namespace optrace_ops
