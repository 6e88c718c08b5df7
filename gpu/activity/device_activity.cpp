// Comments marked "CUPTI" quote its documentation: the chapters Usage and Activity API of
// docs.nvidia.com/cupti, and the comments in its headers.

#include "gpu/activity/device_activity.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "gpu/activity/activity_state.h"
#include "target/interface/recording_format.h"
#include "target/recorder/agent_functions.h"
#include "target/recorder/fork_lock.h"
#include "target/recorder/json_text.h"
#include "target/recorder/recording_pause.h"

namespace optrace_activity {
namespace {

using optrace_ops::agent;
using optrace_ops::JsonText;

// The major version of CUDA. The library serves torches with each of its minor versions.
constexpr int kCuda = CUDA_VERSION / 1000;

constexpr CUpti_ActivityKind kActivities[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,  // KERNEL would serialize kernels.
    CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};

// Prefixes of the driver and runtime functions that give a device work.
constexpr const char* kCallPrefixes[] = {"cudaLaunch",    "__cudaLaunch", "cudaGraphLaunch",
                                         "cudaMemcpy",    "cudaMemset",   "cuLaunch",
                                         "cuGraphLaunch", "cuMemcpy",     "cuMemset"};

// Holds about 1,500 kernels, so that buffers are delivered often enough to relate the kernels to
// their calls.
constexpr std::size_t kBufferBytes = 256 << 10;

constexpr std::chrono::seconds kTimeout{2};

// The functions that start and stop a recording.
int (*start_recording)() = nullptr;
int (*stop_recording)() = nullptr;

// Driver functions, from the process's libcuda.
struct Driver {
  decltype(&cuDriverGetVersion) version = nullptr;
  decltype(&cuCtxSetCurrent) set_current = nullptr;
  decltype(&cuCtxSynchronize) synchronize = nullptr;
  decltype(&cuThreadExchangeStreamCaptureMode) exchange_capture_mode = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// Reporting of missing activity.

std::string readable_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void tell() {
  State& all = state();
  const std::uint32_t recording = agent.recording();
  if (all.missing.empty() || recording == 0 || all.reported_in == recording) return;
  JsonText json;
  json.open('{');
  json.key("call");
  json.string("CUPTI");
  json.key("kind");
  json.string("activity_missing");
  json.key("why");
  json.string(all.missing);
  json.close('}');
  if (agent.keep_record(agent.new_record(), json.text().data(), json.text().size()) == 0)
    all.reported_in = recording;
}

void miss(const std::string& why) {
  state().missing = "Device activity (kernels, their times) is missing: " + why;
  state().reported_in = 0;
  tell();
}

void miss_for(const char* function, CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      miss(
          "CUPTI is in use (by torch.profiler, Nsight Systems, Nsight Compute, cuda-gdb or a "
          "similar tool), and it serves one tool at a time. Trace without that tool.");
      return;
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      miss("the NVIDIA driver lets only administrators trace devices (" +
           std::string(result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
                           ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
                           : "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES") +
           "). Load it with the option NVreg_RestrictProfilingToAdminUsers=0, or trace as root; "
           "for a virtual GPU, its host must allow it.");
      return;
    case CUPTI_ERROR_NOT_INITIALIZED:
      miss(
          "CUPTI can't be initialized (CUPTI_ERROR_NOT_INITIALIZED): there is no NVIDIA driver, or "
          "it is too old for CUDA " +
          std::to_string(kCuda) + ", which this torch uses. Update the driver.");
      return;
    default: {
      const char* name = nullptr;
      if (state().cupti.result_string(result, &name) != CUPTI_SUCCESS || name == nullptr)
        name = "an error without a name";
      miss(std::string(function) + " failed (" + name + "), number " + std::to_string(result) +
           ". See CUPTI's documentation.");
    }
  }
}

// Returns false, with the reason stored, if there is no driver that this CUDA can use. CUPTI can't
// be asked: CUDA 13.2's overflows the stack by recursion if it can't use the driver.
bool find_driver() {
  Driver driver;
  int version = 0;
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY);
  if (library == nullptr || !find(library, "cuDriverGetVersion", driver.version) ||
      driver.version(&version) != CUDA_SUCCESS) {
    const char* const why = library == nullptr ? dlerror() : "its version is unknown";
    miss("there is no NVIDIA driver (libcuda.so.1: " +
         std::string(why == nullptr ? "no reason is given" : why) + "). Install one.");
    return false;
  }
  // Within a major version of CUDA, older drivers work ("minor version compatibility").
  if (version / 1000 < kCuda) {
    miss("the NVIDIA driver is for CUDA " + readable_version(version) +
         ", which is too old for CUDA " + std::to_string(kCuda) +
         ", which this torch uses. Update the driver.");
    return false;
  }
  return true;
}

// Opens the library that the process has loaded or could load. Returns false, with the reason
// stored, if there is none.
bool find_cupti() {
  State& all = state();
  if (all.cupti_found) return true;
  if (!find_driver()) return false;
  const std::string name = "libcupti.so." + std::to_string(kCuda);
  void* library = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen(name.c_str(), RTLD_LAZY);
  if (library == nullptr) {
    const char* const why = dlerror();
    miss(name + " can't be loaded (" + (why == nullptr ? "no reason is given" : why) +
         "). Install the package that torch depends on: pip install nvidia-cuda-cupti" +
         (kCuda < 13 ? "-cu" + std::to_string(kCuda) : std::string()));
    return false;
  }
  Cupti& cupti = all.cupti;
  if (!find(library, "cuptiSubscribe", cupti.subscribe) ||
      !find(library, "cuptiUnsubscribe", cupti.unsubscribe) ||
      !find(library, "cuptiEnableCallback", cupti.enable_callback) ||
      !find(library, "cuptiGetCallbackName", cupti.callback_name) ||
      !find(library, "cuptiActivityRegisterCallbacks", cupti.register_buffers) ||
      !find(library, "cuptiActivityEnable", cupti.enable) ||
      !find(library, "cuptiActivityDisable", cupti.disable) ||
      !find(library, "cuptiActivityFlushAll", cupti.flush) ||
      !find(library, "cuptiActivityGetNextRecord", cupti.next_record) ||
      !find(library, "cuptiActivityGetNumDroppedRecords", cupti.dropped) ||
      !find(library, "cuptiGetContextId", cupti.context_id) ||
      !find(library, "cuptiGetStreamIdEx", cupti.stream_id) ||
      !find(library, "cuptiGetTimestamp", cupti.timestamp) ||
      !find(library, "cuptiGetResultString", cupti.result_string)) {
    const char* const why = dlerror();
    miss(name + " can't be used (" + (why == nullptr ? "" : why) +
         "). Reinstall the packages that torch depends on.");
    return false;
  }
  all.cupti_found = true;
  return true;
}

// Recording of CUDA calls.

// Stores a context's default stream, which is recorded as 0, as in CUDA's own APIs. CUPTI uses
// another id for it.
void know_context(CUcontext context) {
  static thread_local CUcontext known = nullptr;
  if (context == nullptr || context == known) return;
  known = context;
  const Pause pause;
  const Cupti& cupti = state().cupti;
  std::uint32_t id = 0;
  Context found{context, 0};
  if (cupti.context_id(context, &id) != CUPTI_SUCCESS ||
      cupti.stream_id(context, nullptr, 0, &found.default_stream) != CUPTI_SUCCESS)
    return;
  const std::lock_guard lock(state().contexts_mutex);
  state().contexts[id] = found;
}

void CUPTIAPI on_call(void* /*user*/, CUpti_CallbackDomain domain, CUpti_CallbackId /*cbid*/,
                      const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RUNTIME_API && domain != CUPTI_CB_DOMAIN_DRIVER_API) return;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite != CUPTI_API_ENTER) {
    // A process's first call creates the context.
    try {
      know_context(call.context);
    } catch (...) {
      return;  // Out of memory: the stream is recorded with CUPTI's id.
    }
    return;
  }
  // The runtime calls the driver, which also invokes this callback, sometimes with the same number.
  static thread_local std::uint32_t last = 0;
  if (call.correlationId == last) return;
  last = call.correlationId;
  Pause::note(optrace::recording::kDeviceCall, 0,
              reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)), call.correlationId);
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  // CUPTI: "The alignment of the buffer must be 8 bytes"; malloc returns more. Without memory,
  // CUPTI drops records and counts them.
  *buffer = static_cast<std::uint8_t*>(std::malloc(kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most = 0;  // As many as fit.
}

// Called by CUPTI's own thread, or by a thread of the program that flushes.
void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t /*size*/, std::size_t valid) {
  const Pause pause;
  const Cupti& cupti = state().cupti;
  CUpti_Activity* record = nullptr;
  while (valid != 0 && cupti.next_record(buffer, valid, &record) == CUPTI_SUCCESS)
    put_activity(*record);
  std::size_t dropped = 0;
  if (cupti.dropped(context, stream, &dropped) == CUPTI_SUCCESS) state().dropped += dropped;
  std::free(buffer);
}

// Turning recording on and off.

// Turns recording off, after recording completed activity. The lock must be held.
void turn_off() {
  State& all = state();
  if (all.subscriber == nullptr) return;
  const Cupti& cupti = all.cupti;
  // Flush complete activities first, because a forced flush also delivers incomplete ones, without
  // times.
  cupti.flush(0);
  cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  for (const CUpti_ActivityKind kind : kActivities) cupti.disable(kind);
  cupti.unsubscribe(std::exchange(all.subscriber, nullptr));
}

// Releases CUPTI, because other code in this process is about to use it.
void give_way() {
  const Pause pause;
  State& all = state();
  const std::lock_guard lock(all.mutex);
  if (all.subscriber == nullptr || all.process != getpid()) return;
  turn_off();
  all.gave_way = true;
  try {
    miss(
        "from the moment when the program itself began to use CUPTI, as torch.profiler does: CUPTI "
        "serves one tool at a time. Trace without profiling, or profile without tracing.");
  } catch (...) {
    return;  // Out of memory for the message.
  }
}

decltype(&cuptiSubscribe) real_subscribe = nullptr;
decltype(&cuptiActivityRegisterCallbacks) real_register = nullptr;

CUptiResult CUPTIAPI subscribe_instead(CUpti_SubscriberHandle* subscriber,
                                       CUpti_CallbackFunc callback, void* user) {
  give_way();
  return real_subscribe(subscriber, callback, user);
}

CUptiResult CUPTIAPI register_instead(CUpti_BuffersCallbackRequestFunc request,
                                      CUpti_BuffersCallbackCompleteFunc complete) {
  give_way();
  return real_register(request, complete);
}

const optrace_agent_redirection* redirections() {
  static const optrace_agent_redirection both[] = {
      {"cuptiSubscribe", reinterpret_cast<void*>(subscribe_instead),
       reinterpret_cast<void**>(&real_subscribe)},
      {"cuptiActivityRegisterCallbacks", reinterpret_cast<void*>(register_instead),
       reinterpret_cast<void**>(&real_register)}};
  return both;
}
constexpr std::size_t kRedirections = 2;

// Enables the callbacks of the functions that give devices work, by their names:
// "cudaLaunchKernel_v7000".
void enable_calls(const Cupti& cupti, CUpti_SubscriberHandle subscriber,
                  CUpti_CallbackDomain domain, CUpti_CallbackId end) {
  for (CUpti_CallbackId id = 1; id < end; ++id) {
    const char* name = nullptr;
    if (cupti.callback_name(domain, id, &name) != CUPTI_SUCCESS || name == nullptr) continue;
    for (const char* const prefix : kCallPrefixes) {
      if (std::strncmp(name, prefix, std::strlen(prefix)) != 0) continue;
      cupti.enable_callback(1, subscriber, domain, id);
      break;
    }
  }
}

// Turns recording on. The lock must be held.
void turn_on() {
  State& all = state();
  if (all.subscriber != nullptr && all.process == getpid()) return;
  if (all.process != getpid()) {
    // A forked child can neither use nor end its parent's subscription.
    all.subscriber = nullptr;
    all.gave_way = false;
  }
  if (all.gave_way || !find_cupti()) {
    tell();
    return;
  }
  all.missing.clear();
  all.dropped = 0;
  const Cupti& cupti = all.cupti;
  // Must be the first call. CUPTI: "CUPTI client should error out and not make further CUPTI calls
  // if cuptiSubscribe() returns an error."
  CUptiResult result = cupti.subscribe(&all.subscriber, on_call, nullptr);
  if (result != CUPTI_SUCCESS) {
    all.subscriber = nullptr;
    miss_for("cuptiSubscribe", result);
    return;
  }
  all.process = getpid();
  const char* failed = "cuptiActivityRegisterCallbacks";
  result = cupti.register_buffers(give_buffer, take_buffer);
  for (const CUpti_ActivityKind kind : kActivities) {
    if (result != CUPTI_SUCCESS) break;
    failed = "cuptiActivityEnable";
    result = cupti.enable(kind);
  }
  if (result != CUPTI_SUCCESS) {
    turn_off();
    miss_for(failed, result);
    return;
  }
  enable_calls(cupti, all.subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_SIZE);
  enable_calls(cupti, all.subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_SIZE);
  optrace_ops::redirect(nullptr, redirections(), kRedirections);
}

struct Waiting {
  std::vector<CUcontext> contexts;
  Driver driver;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

// Waits until all work in the contexts is completed. The argument is a std::shared_ptr<Waiting>, to
// be deleted.
void* wait_for_contexts(void* argument) {
  const std::unique_ptr<std::shared_ptr<Waiting>> shared(
      static_cast<std::shared_ptr<Waiting>*>(argument));
  Waiting& waiting = **shared;
  {
    const Pause pause;
    const Driver& driver = waiting.driver;
    // Keeps the calls below from invalidating a stream capture in progress.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver.exchange_capture_mode(&mode);
    for (const CUcontext context : waiting.contexts)
      if (driver.set_current(context) == CUDA_SUCCESS) driver.synchronize();
    driver.set_current(nullptr);
  }
  const std::lock_guard lock(waiting.mutex);
  waiting.done = true;
  waiting.changed.notify_all();
  return nullptr;
}

// Waits until the devices have completed their work, at most kTimeout. CUPTI: "it is the client's
// responsibility to issue necessary CUDA synchronization calls" before a flush.
void wait_for_devices() {
  std::vector<CUcontext> contexts;
  {
    const std::lock_guard lock(state().contexts_mutex);
    for (const auto& known : state().contexts) contexts.push_back(known.second.handle);
  }
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  Driver driver;
  if (contexts.empty() || library == nullptr ||
      !find(library, "cuCtxSetCurrent", driver.set_current) ||
      !find(library, "cuCtxSynchronize", driver.synchronize) ||
      !find(library, "cuThreadExchangeStreamCaptureMode", driver.exchange_capture_mode))
    return;
  const auto waiting = std::make_shared<Waiting>();
  waiting->contexts = std::move(contexts);
  waiting->driver = driver;
  // Not std::thread, which needs a newer libstdc++ than some torches do.
  auto* const shared = new std::shared_ptr<Waiting>(waiting);
  pthread_t thread{};
  if (pthread_create(&thread, nullptr, wait_for_contexts, shared) != 0) {
    delete shared;
    return;
  }
  // If a device hangs, this thread is abandoned, so that the end of the recording does not hang.
  pthread_detach(thread);
  std::unique_lock lock(waiting->mutex);
  waiting->changed.wait_for(lock, kTimeout, [&] { return waiting->done; });
}

int end() {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  if (all.process != getpid()) all.subscriber = nullptr;
  if (all.subscriber != nullptr) {
    optrace_ops::restore(redirections(), kRedirections);
    wait_for_devices();
    turn_off();
    if (all.dropped != 0)
      miss(std::to_string(all.dropped) + " activities did not fit into CUPTI's buffers.");
  }
  tell();
  return 0;
}

int begin() {
  const std::lock_guard lock(state().mutex);
  optrace_ops::hold_across_forks<&state>();
  turn_on();
  return 0;
}

}  // namespace
}  // namespace optrace_activity

extern "C" {

int optrace_activity_use(const optrace_recorder_functions* functions, int (*start)(void),
                         int (*stop)(void)) {
  using namespace optrace_activity;
  if (start == nullptr || stop == nullptr) return -EINVAL;
  start_recording = start;
  stop_recording = stop;
  return optrace_ops::use_agent(functions);
}

int optrace_activity_begin() {
  return optrace_ops::without_exceptions<optrace_activity::Pause>(optrace_activity::begin);
}

int optrace_activity_begin_if_recording() {
  if (!optrace_ops::has_agent.load()) return -EINVAL;
  return optrace_ops::current_recording() == 0 ? 0 : optrace_activity_begin();
}

int optrace_activity_start() {
  const int begun = optrace_activity_begin();
  if (begun != 0) return begun;
  return optrace_activity::start_recording();
}

int optrace_activity_stop() {
  const int ended = optrace_ops::without_exceptions<optrace_activity::Pause>(optrace_activity::end);
  if (ended == -EINVAL) return ended;
  return optrace_activity::stop_recording();
}

}  // extern "C"
