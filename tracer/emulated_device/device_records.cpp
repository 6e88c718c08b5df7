// What calls decide on, handed to the in-process agent as records of the trace.

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "tracer/agent/recording_format.h"
#include "tracer/emulated_device/device.h"
#include "tracer/emulated_device/device_fork.h"
#include "tracer/emulated_device/device_streams.h"

namespace optrace::emulated {
namespace {

// Beyond these, calls are still noted, but without saying what they were.
constexpr std::size_t kMostRecords = 65536;
constexpr std::size_t kMostBytes = 32ULL << 20;

std::mutex records_mutex;
const HeldAcrossFork<records_mutex> records_held;

/// The records kept in one recording.
struct Records {
  std::uint32_t round = 0;
  std::size_t bytes = 0;
  std::unordered_map<std::string, std::uint32_t> ids;
};

Records& records() {
  static auto* const records = new Records;  // CUDA is called until a process's very end.
  return *records;
}

optrace_device_functions agent_functions{};
std::atomic<const optrace_device_functions*> agent{nullptr};

std::uint32_t running_round() {
  const optrace_device_functions* const functions = agent.load(std::memory_order_acquire);
  return functions == nullptr ? 0 : functions->recording();
}

/// The id of the record with this text; 0 when there is no room for one more.
std::uint32_t record_of(const optrace_device_functions& functions, std::uint32_t round,
                        const std::string& text) {
  const std::lock_guard lock(records_mutex);
  Records& kept = records();
  if (kept.round != round) {
    kept.ids.clear();
    kept.bytes = 0;
    kept.round = round;
  }
  const auto known = kept.ids.find(text);
  if (known != kept.ids.end()) return known->second;
  if (kept.ids.size() >= kMostRecords || kept.bytes + text.size() > kMostBytes) return 0;
  const std::uint32_t id = functions.new_record();
  if (id == 0 || functions.keep_record(id, text.data(), text.size()) != 0) return 0;
  kept.ids.emplace(text, id);
  kept.bytes += text.size();
  return id;
}

}  // namespace

bool recording() {
  return running_round() != 0;
}

Call::Call(const char* function, const char* kind) : library_(std::strcmp(kind, "library") == 0) {
  json_.open('{');
  json_.key("call");
  json_.string(function);
  json_.key("kind");
  json_.string(kind);
}

void Call::record() {
  json_.close('}');
  if (library_) capture_library_call(json_.text());
  const std::uint32_t round = running_round();
  if (round == 0) return;
  const optrace_device_functions& functions = *agent.load(std::memory_order_acquire);
  functions.note(recording::kCallRecord, record_of(functions, round, json_.text()), 0, 0);
}

}  // namespace optrace::emulated

extern "C" int optrace_device_use(const struct optrace_device_functions* functions) {
  using namespace optrace::emulated;
  if (functions == nullptr || functions->note == nullptr || functions->keep_record == nullptr ||
      functions->new_record == nullptr || functions->recording == nullptr)
    return -EINVAL;
  const std::lock_guard lock(records_mutex);
  // Only once: a call may be using them.
  if (agent.load(std::memory_order_relaxed) != nullptr) return 0;
  agent_functions = *functions;
  agent.store(&agent_functions, std::memory_order_release);
  return 0;
}
