// Records of calls, passed to the agent for the trace.

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/streams/device_streams.h"
#include "target/interface/recording_format.h"
#include "target/recorder/agent_functions.h"
#include "target/recorder/fingerprint.h"
#include "target/recorder/fork_lock.h"
#include "target/recorder/record_store.h"

namespace optrace::emulated {
namespace {

using optrace_ops::agent;
using optrace_ops::Fingerprint;
using optrace_ops::RecordStore;

RecordStore& records() {
  // Never destroyed, because CUDA may be called until the process ends.
  static auto* const records = new RecordStore;
  return *records;
}

const bool held = (optrace_ops::hold_across_forks<&records>(), true);

thread_local const void* called_at = nullptr;

/// A query whose normal result is an error.
struct ExpectedError {
  const char* function;  ///< Prefix of the function's name; empty: any.
  int error;             ///< 0: any.
};
constexpr ExpectedError kExpectedErrors[] = {
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

bool is_expected_error(const char* function, int error) {
  for (const ExpectedError& known : kExpectedErrors)
    if ((known.error == 0 || known.error == error) &&
        std::strncmp(function, known.function, std::strlen(known.function)) == 0)
      return true;
  return false;
}

/// If optrace traces emulated devices like real ones, their work is reported by CUPTI and library
/// calls are recorded by gpu/recorder/.
bool is_recorded_by_cupti(const char* kind) {
  static const bool follows = [] {
    const char* const wish = std::getenv("OPTRACE_DEVICE_ACTIVITY");
    return wish != nullptr && *wish != '\0' && std::strcmp(wish, "0") != 0;
  }();
  return follows && (std::strcmp(kind, "kernel") == 0 || std::strcmp(kind, "copy") == 0 ||
                     std::strcmp(kind, "fill") == 0 || std::strcmp(kind, "library") == 0);
}

}  // namespace

bool recording() {
  return optrace_ops::current_recording() != 0;
}

Call::Call(const char* function, const char* kind)
    : library_(std::strcmp(kind, "library") == 0), recorded_by_cupti_(is_recorded_by_cupti(kind)) {
  json_.open('{');
  json_.key("call");
  json_.string(function);
  json_.key("kind");
  json_.string(kind);
}

void Call::record() {
  json_.close('}');
  if (library_) capture_library_call(json_.text());
  const std::uint32_t recording = optrace_ops::current_recording();
  if (recording == 0 || (recorded_by_cupti_ && called_at == nullptr)) return;
  const std::string& text = json_.text();
  Fingerprint fingerprint;
  fingerprint.add(text.data(), text.size());
  const auto record =
      records().record_of(recording, fingerprint, [&]() -> const std::string& { return text; });
  agent.note(recording::kCallRecord, record.id, reinterpret_cast<std::uintptr_t>(called_at), 0);
}

CalledAt::CalledAt(const void* frame) : before_(std::exchange(called_at, frame)) {}

CalledAt::~CalledAt() {
  called_at = before_;
}

void record_failure(const char* function, int error, const char* name) {
  if (!recording() || is_expected_error(function, error)) return;
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

extern "C" int optrace_device_use(const struct optrace_recorder_functions* functions) {
  if (!optrace_ops::is_complete(functions)) return -EINVAL;
  // Set only once, because a call may be using the functions.
  static const int result = optrace_ops::use_agent(functions);
  return result;
}
