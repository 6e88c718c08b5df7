// Comments marked "CUPTI" quote its documentation (device_activity.cpp).

#include <cstdint>
#include <cstring>

#include "gpu/activity/activity_state.h"
#include "target/interface/recording_format.h"
#include "target/recorder/agent_functions.h"
#include "target/recorder/fingerprint.h"
#include "target/recorder/json_fingerprint.h"
#include "target/recorder/json_text.h"

namespace optrace_activity {
namespace {

using optrace_ops::agent;
using optrace_ops::Fingerprint;
using optrace_ops::JsonFingerprint;
using optrace_ops::JsonText;

// Newer versions of these records begin with the fields of the older ones, so the oldest versions
// that CUDA 12.4 produces fit all (cupti_activity.h, cupti_activity_deprecated.h).
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using FillRecord = CUpti_ActivityMemset4;

// The functions below write to a JsonText or a JsonFingerprint.

template <typename Out>
void put(Out& out, const char* key, std::int64_t value) {
  out.key(key);
  out.number(value);
}

template <typename Out>
void put(Out& out, const char* key, std::int64_t x, std::int64_t y, std::int64_t z) {
  out.key(key);
  out.open('[');
  for (const std::int64_t value : {x, y, z}) out.number(value);
  out.close(']');
}

template <typename Out>
void put_kind(Out& out, const char* kind) {
  out.key("kind");
  out.string(kind);
}

std::int64_t stream_number(std::uint32_t context, std::uint32_t stream) {
  const std::lock_guard lock(state().contexts_mutex);
  const auto found = state().contexts.find(context);
  return found != state().contexts.end() && found->second.default_stream == stream ? 0 : stream;
}

// Writes the location, which all activities have. The first device is omitted.
template <typename Out, typename Activity>
void put_place(Out& out, const Activity& activity) {
  put(out, "stream", stream_number(activity.contextId, activity.streamId));
  if (activity.deviceId != 0) put(out, "device", activity.deviceId);
}

template <typename Out>
void describe(Out& out, const KernelRecord& kernel) {
  put_kind(out, "kernel");
  out.key("kernel");
  out.string(kernel.name == nullptr ? "?" : kernel.name);
  put(out, "grid", kernel.gridX, kernel.gridY, kernel.gridZ);
  put(out, "block", kernel.blockX, kernel.blockY, kernel.blockZ);
  if (kernel.clusterX > 1 || kernel.clusterY > 1 || kernel.clusterZ > 1)
    put(out, "cluster", kernel.clusterX, kernel.clusterY, kernel.clusterZ);
  put(out, "shared_memory", kernel.dynamicSharedMemory);
  put(out, "static_shared_memory", kernel.staticSharedMemory);
  put(out, "registers", kernel.registersPerThread);
  put(out, "local_memory", kernel.localMemoryPerThread);
  put_place(out, kernel);
}

const char* direction_of(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
      return "host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
      return "device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return "host to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN:
      return "unknown";
    default:  // Arrays are on the device; PTOP is between devices.
      return "device to device";
  }
}

template <typename Out, typename Copy>
void describe_copy(Out& out, const Copy& copy) {
  put_kind(out, "copy");
  put(out, "bytes", static_cast<std::int64_t>(copy.bytes));
  out.key("direction");
  out.name(std::uint8_t{copy.copyKind}, direction_of);
  put_place(out, copy);
}
template <typename Out>
void describe(Out& out, const CopyRecord& copy) {
  describe_copy(out, copy);
}
template <typename Out>
void describe(Out& out, const PeerCopyRecord& copy) {
  describe_copy(out, copy);
}

template <typename Out>
void describe(Out& out, const FillRecord& fill) {
  put_kind(out, "fill");
  put(out, "bytes", static_cast<std::int64_t>(fill.bytes));
  put_place(out, fill);
}

/// Returns the id of the record that describes the activity, or 0 if there is no room for another.
template <typename Activity>
std::uint32_t record_of(const Activity& activity, std::uint32_t recording) {
  Fingerprint fingerprint;
  JsonFingerprint out(fingerprint);
  describe(out, activity);
  const auto record = state().records.record_of(recording, fingerprint, [&] {
    JsonText json;
    json.open('{');
    describe(json, activity);
    json.close('}');
    return json.text();
  });
  return record.id;
}

template <typename Activity>
void note(const CUpti_Activity& record) {
  const std::uint32_t recording = agent.recording();
  if (recording == 0) return;
  // The activity structs are packed, so the fields are read from a copy.
  Activity activity;
  std::memcpy(&activity, &record, sizeof activity);
  std::uint32_t id = 0;
  try {
    id = record_of(activity, recording);
  } catch (...) {
    id = 0;  // Out of memory: it is still counted.
  }
  // CUPTI: "If both the start and end timestamps are 0, then timestamp information could not be
  // collected."
  const std::uint64_t start = activity.start;
  const std::uint64_t end = activity.end;
  std::uint64_t now = 0;
  const bool timed = start != 0 && state().cupti.timestamp(&now) == CUPTI_SUCCESS && now > start;
  const auto packed = optrace::recording::pack_activity({.call = activity.correlationId,
                                                         .duration = end > start ? end - start : 0,
                                                         .age = timed ? now - start : 0});
  Pause::note(optrace::recording::kDeviceActivity, id, packed.stack_pointer, packed.return_address);
}

}  // namespace

void put_activity(const CUpti_Activity& activity) {
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      note<KernelRecord>(activity);
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      note<CopyRecord>(activity);
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      note<PeerCopyRecord>(activity);
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      note<FillRecord>(activity);
      break;
    default:
      break;
  }
}

}  // namespace optrace_activity
