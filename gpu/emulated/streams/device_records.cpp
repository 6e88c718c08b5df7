// Records of calls, passed to the in-process agent for the trace.

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/streams/device_streams.h"
#include "target/interface/recording_format.h"

namespace optrace::emulated {
namespace {

// Beyond these limits, calls are still recorded, but without a description.
constexpr std::size_t kMaxRecords = 65536;
constexpr std::size_t kMaxBytes = 32ULL << 20;

std::mutex records_mutex;
const HeldAcrossFork<records_mutex> records_held;

/// The records of one recording.
struct Records {
  std::uint32_t round = 0;
  std::size_t bytes = 0;
  std::unordered_map<std::string, std::uint32_t> ids;
};

Records& records() {
  // Never destroyed, because CUDA may be called until the process ends.
  static auto* const records = new Records;
  return *records;
}

optrace_device_functions agent_functions{};
std::atomic<const optrace_device_functions*> agent{nullptr};

std::uint32_t running_round() {
  const optrace_device_functions* const functions = agent.load(std::memory_order_acquire);
  return functions == nullptr ? 0 : functions->recording();
}

/// Returns the id of the record with this text, or 0 if there is no room for another.
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
  if (kept.ids.size() >= kMaxRecords || kept.bytes + text.size() > kMaxBytes) return 0;
  const std::uint32_t id = functions.new_record();
  if (id == 0 || functions.keep_record(id, text.data(), text.size()) != 0) return 0;
  kept.ids.emplace(text, id);
  kept.bytes += text.size();
  return id;
}

thread_local const void* called_at = nullptr;

/// A query whose normal result is an error.
struct Answer {
  const char* function;  ///< Prefix of the function's name; empty: any.
  int error;             ///< 0: any.
};
constexpr Answer kAnswers[] = {
    {"", static_cast<int>(Status::not_ready)},
    {"", static_cast<int>(Status::peer_access_already_enabled)},
    {"cuGetProcAddress", 0},
    {"cuGetExportTable", 0},
    {"cudaGetDriverEntryPoint", 0},
    {"cuPointerGetAttribute", static_cast<int>(Status::invalid_value)},
    {"cudaStreamIsCapturing", static_cast<int>(Status::capture_implicit)},
    {"cudaStreamGetCaptureInfo", static_cast<int>(Status::capture_implicit)},
    {"cuStreamGetCaptureInfo", static_cast<int>(Status::capture_implicit)},
};

bool is_answer(const char* function, int error) {
  for (const Answer& known : kAnswers)
    if ((known.error == 0 || known.error == error) &&
        std::strncmp(function, known.function, std::strlen(known.function)) == 0)
      return true;
  return false;
}

/// If optrace traces emulated devices like real ones, their work is reported by CUPTI and library
/// calls are recorded by gpu/recorder/.
bool is_told_elsewhere(const char* kind) {
  static const bool follows = [] {
    const char* const wish = std::getenv("OPTRACE_DEVICE_ACTIVITY");
    return wish != nullptr && *wish != '\0' && std::strcmp(wish, "0") != 0;
  }();
  return follows && (std::strcmp(kind, "kernel") == 0 || std::strcmp(kind, "copy") == 0 ||
                     std::strcmp(kind, "fill") == 0 || std::strcmp(kind, "library") == 0);
}

}  // namespace

bool recording() {
  return running_round() != 0;
}

Call::Call(const char* function, const char* kind)
    : library_(std::strcmp(kind, "library") == 0), told_elsewhere_(is_told_elsewhere(kind)) {
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
  if (round == 0 || (told_elsewhere_ && called_at == nullptr)) return;
  const optrace_device_functions& functions = *agent.load(std::memory_order_acquire);
  functions.note(recording::kCallRecord, record_of(functions, round, json_.text()),
                 reinterpret_cast<std::uintptr_t>(called_at), 0);
}

CalledAt::CalledAt(const void* frame) : before_(std::exchange(called_at, frame)) {}

CalledAt::~CalledAt() {
  called_at = before_;
}

void record_failure(const char* function, int error, const char* name) {
  if (!recording() || is_answer(function, error)) return;
  Call call(function, "failed");
  call.json().key("error");
  call.json().number(static_cast<std::int64_t>(error));
  if (*name != '\0') {
    call.json().key("status");
    call.json().string(name);
  }
  call.record();
}

}  // namespace optrace::emulated

extern "C" int optrace_device_use(const struct optrace_device_functions* functions) {
  using namespace optrace::emulated;
  if (functions == nullptr || functions->note == nullptr || functions->keep_record == nullptr ||
      functions->new_record == nullptr || functions->recording == nullptr)
    return -EINVAL;
  const std::lock_guard lock(records_mutex);
  // Set only once, because a call may be using the functions.
  if (agent.load(std::memory_order_relaxed) != nullptr) return 0;
  agent_functions = *functions;
  agent.store(&agent_functions, std::memory_order_release);
  return 0;
}
