#pragma once

// What the sources of this recorder share.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include <cupti.h>
#include <sys/types.h>

#include "target/recorder/agent_functions.h"
#include "target/recorder/record_store.h"
#include "target/recorder/recording_pause.h"

namespace optrace_activity {

// Pauses recording on the calling thread, except for the events that note() records.
class Pause : public optrace_ops::RecordingPause {
 public:
  Pause() {
    if (outermost == nullptr) outermost = this;
  }
  ~Pause() {
    if (outermost == this) outermost = nullptr;
  }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

  /// Records an event of the calling thread.
  static void note(std::uint32_t kind, std::uint32_t record, std::uint64_t number,
                   std::uint64_t more) {
    if (outermost == nullptr)
      optrace_ops::agent.note(kind, record, number, more);
    else
      outermost->RecordingPause::note(kind, record, number, more);
  }

 private:
  static inline thread_local Pause* outermost = nullptr;
};

// CUPTI functions in use, from the process's libcupti.
struct Cupti {
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiEnableCallback) enable_callback = nullptr;
  decltype(&cuptiGetCallbackName) callback_name = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_buffers = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = nullptr;
  decltype(&cuptiGetContextId) context_id = nullptr;
  decltype(&cuptiGetStreamIdEx) stream_id = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
};

// A context that was used while recording.
struct Context {
  CUcontext handle;
  std::uint32_t default_stream;  // CUPTI's id of the context's legacy default stream.
};

struct State {
  std::mutex mutex;  // Locked before CUPTI is turned on or off; never locked in its callbacks.
  Cupti cupti;
  bool cupti_found = false;
  CUpti_SubscriberHandle subscriber = nullptr;
  pid_t process = 0;  // The process that subscribed.
  bool gave_way = false;
  std::string missing;            // A sentence that gives the reason; empty: nothing is missing.
  std::uint32_t reported_in = 0;  // The recording that contains it.

  // Locked in callbacks. Nothing is called while it is locked.
  std::mutex contexts_mutex;
  std::unordered_map<std::uint32_t, Context> contexts;  // By CUPTI's id.
  optrace_ops::RecordStore records;
  std::atomic<std::uint64_t> dropped{0};

  // For forks: in the order in which a thread takes the locks.
  void lock() {
    mutex.lock();
    records.lock();
    contexts_mutex.lock();
  }
  void unlock() {
    contexts_mutex.unlock();
    records.unlock();
    mutex.unlock();
  }
};

inline State& state() {
  // Never destroyed, because CUPTI's own thread may run until the process ends.
  static auto* const state = new State;
  return *state;
}

/// Records a kernel, copy or fill. Ignores other activities.
void put_activity(const CUpti_Activity& activity);

}  // namespace optrace_activity
