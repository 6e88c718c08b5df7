#include "target/op_recorder/op_records.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/record_function.h>
#include <c10/core/DispatchKeySet.h>
#include <pthread.h>

#include "target/interface/recording_format.h"
#include "target/op_recorder/arguments.h"
#include "target/op_recorder/callees.h"
#include "target/op_recorder/libraries/library_calls.h"
#include "target/op_recorder/results.h"
#include "target/op_recorder/running_op.h"
#include "target/op_recorder/tensors/tensor_log.h"
#include "target/op_recorder/thread_cache.h"
#include "target/op_recorder/thread_state.h"
#include "target/recorder/agent_functions.h"
#include "target/recorder/fingerprint.h"
#include "target/recorder/fork_lock.h"
#include "target/recorder/json_text.h"
#include "target/recorder/recording_pause.h"

// The callbacks run in the middle of an op and only read. They call no op or tensor method that
// could dispatch or call Python, take no GIL, keep no reference after they return, throw nothing
// and preserve errno.

namespace optrace_ops {
namespace {

using optrace::recording::kCallRecord;
using optrace::recording::kNodeBegin;
using optrace::recording::kNodeEnd;
using optrace::recording::kOpBegin;
using optrace::recording::kOpEnd;

// Counts calls of enable and disable; odd while enabled.
std::atomic<std::uint32_t> recording_number{0};

std::uint32_t record_of_call(const at::RecordFunction& function, ThreadCache& cache,
                             RunningOp& op) {
  Callee* const callee = cache.callee_of(function);
  if (callee == nullptr) return 0;
  op.set_callee(callee);
  const Precision precision = callee->precision();
  const ThreadState thread;
  const bool compares = op.depth() == 0 && precision == Precision::everything &&
                        thread.dispatch_modes == 0 && callee->worth_comparing();
  Arguments arguments(function.inputs(), *callee, precision, compares);
  arguments.record_tensors(op);
  Fingerprint fingerprint;
  fingerprint.add(reinterpret_cast<std::uintptr_t>(callee));
  fingerprint.add(static_cast<std::uint64_t>(precision));
  arguments.add_to(fingerprint);
  if (LoggedCall* const call = op.logged_call()) {
    arguments.add_to(*call);
    // With a log, each place that calls the op has records of its own.
    fingerprint.add(call->outer.record);
    if (call->outer.call == 0)
      fingerprint.add((static_cast<std::uint64_t>(cache.log.file) << 32U) | cache.log.line);
  }
  fingerprint.add(raw(thread.keys.included_));
  fingerprint.add(raw(thread.keys.excluded_));
  fingerprint.add((static_cast<std::uint64_t>(thread.dispatch_modes) << 2U) |
                  (thread.grad_mode ? 2U : 0U) | (thread.inference_mode ? 1U : 0U));
  if (compares && arguments.inputs().known() &&
      cache.seen_calls().contains_or_add(fingerprint, arguments.inputs(), op.recording()))
    op.set_repeated();
  std::optional<ScriptLine> script;
  if (op.depth() == 0) script.emplace().add_to(fingerprint);
  return cache.id_of(fingerprint, op.recording(), callee, [&](JsonText& json) {
    json.key("op");
    json.string(callee->name);
    json.key("schema");
    if (callee->schema.empty())
      json.null();
    else
      json.string(callee->schema);
    arguments.write(json);
    if (!callee->schema.empty()) {
      json.key("included");
      json.number(raw(thread.keys.included_));
      json.key("excluded");
      json.number(raw(thread.keys.excluded_));
      json.key("key_set");
      json.number(raw((arguments.keys() | thread.keys.included_) - thread.keys.excluded_));
    }
    json.key("grad_mode");
    json.boolean(thread.grad_mode);
    json.key("inference_mode");
    json.boolean(thread.inference_mode);
    json.key("dispatch_modes");
    json.number(thread.dispatch_modes);
    if (script) script->write(json);
    if (precision != Precision::everything) {
      json.key("varies");
      json.boolean(true);
    }
  });
}

std::uint32_t record_of_results(const at::RecordFunction& function, ThreadCache& cache,
                                const RunningOp& op) {
  // A function without a schema reports no results, and an op that throws has none.
  Callee* const callee = op.callee();
  if (callee == nullptr || callee->schema.empty() || callee->results == 0 ||
      function.outputs().empty())
    return 0;
  const Precision precision = callee->precision();
  const Results results(function.outputs(), op, precision);
  Fingerprint fingerprint;
  fingerprint.add(reinterpret_cast<std::uintptr_t>(callee) + 1);
  fingerprint.add(static_cast<std::uint64_t>(precision));
  results.add_to(fingerprint);
  if (LoggedCall* const call = op.logged_call()) results.add_to(*call);
  if (callee->may_return_view && !callee->made_tensor.load(std::memory_order_relaxed) &&
      results.has_new_tensor())
    callee->made_tensor.store(true, std::memory_order_relaxed);
  return cache.id_of(fingerprint, op.recording(), callee,
                     [&](JsonText& json) { results.write(json); });
}

std::uint32_t record_of_node(const at::RecordFunction& function, ThreadCache& cache,
                             std::uint32_t recording) {
  const char* const name = function.name();
  Fingerprint fingerprint;
  fingerprint.add('N');
  fingerprint.add(name, std::strlen(name));
  return cache.id_of(fingerprint, recording, nullptr, [&](JsonText& json) {
    json.key("node");
    json.string(name);
  });
}

// True for the engine's wrapper around a node, which has its own record.
bool is_passed_over(const at::RecordFunction& function) {
  constexpr char kWrapper[] = "autograd::engine::";
  return std::strncmp(function.name(), kWrapper, sizeof kWrapper - 1) == 0;
}

bool is_node(const at::RecordFunction& function) {
  return function.scope() == at::RecordScope::BACKWARD_FUNCTION;
}

// Returns a RecordFunction's thread and address in the form of kOpBegin. Almost always, the
// RecordFunction is in the frame that dispatches.
std::uint64_t thread_and_address(const at::RecordFunction& function) {
  constexpr std::uintptr_t kNear = 1U << 16U;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const auto there = reinterpret_cast<std::uintptr_t>(&function);
  const std::uint64_t place = there > here && there - here < kNear ? there >> 3U : 0;
  return (place << 32U) | (function.threadId() & 0xFFFF'FFFFU);
}

void record_in_log(const at::RecordFunction& function, std::uint32_t record, LoggedCall& call) {
  call.record = record;
  call.sequence = function.seqNr();
  call.thread = is_node(function) ? function.forwardThreadId() : function.threadId();
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  const std::uint32_t recording = recording_number.load(std::memory_order_acquire);
  if (recording % 2 == 0) return nullptr;
  if (is_passed_over(function)) return nullptr;
  std::unique_ptr<RunningOp> op;
  std::uint32_t record = 0;
  try {
    // Ends before the event is recorded, because nothing is recorded for a paused thread.
    const RecordingPause pause;
    ThreadCache* const cache = ThreadCache::get();
    op = std::make_unique<RunningOp>(recording, cache == nullptr ? 0 : cache->depth++);
    if (cache != nullptr) {
      if (tensor_log::is_on())
        op->set_logged_call(tensor_log::begin(cache->log, is_node(function)));
      record = is_node(function) ? record_of_node(function, *cache, recording)
                                 : record_of_call(function, *cache, *op);
      if (LoggedCall* const call = op->logged_call()) record_in_log(function, record, *call);
      cache->log.record = record;
    }
  } catch (...) {
    // Out of memory, or an unexpected property of this PyTorch: the call is still counted.
    record = 0;
  }
  const auto number = static_cast<std::uint64_t>(function.seqNr());
  if (is_node(function))
    agent.note(kNodeBegin, record, number, function.forwardThreadId());
  else
    agent.note(kOpBegin, record, number, thread_and_address(function));
  return op;
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto* const op = static_cast<const RunningOp*>(context);
  if (op == nullptr) return;
  ThreadCache* const cache = ThreadCache::get();
  if (cache != nullptr) {
    cache->depth = op->depth();
    if (const LoggedCall* const call = op->logged_call()) tensor_log::leave(cache->log, *call);
  }
  // Ignore an op that began outside this recording.
  if (op->recording() != recording_number.load(std::memory_order_acquire)) return;
  std::uint32_t record = 0;
  try {
    const RecordingPause pause;
    if (cache != nullptr && !is_node(function)) record = record_of_results(function, *cache, *op);
    if (cache != nullptr && op->logged_call() != nullptr) {
      const char* const name =
          op->callee() != nullptr ? op->callee()->name.c_str() : function.name();
      tensor_log::end(cache->log, *op->logged_call(), name, is_node(function));
    }
  } catch (...) {
    record = 0;
  }
  agent.note(is_node(function) ? kNodeEnd : kOpEnd, record,
             static_cast<std::uint64_t>(function.seqNr()),
             is_node(function) ? function.threadId() : thread_and_address(function));
}

// Record 0 contains the names of all keys. A DispatchKeySet has a bit for each backend, lowest
// first, then one for each functionality, in order of increasing priority
// (c10/core/DispatchKeySet.h). A per-backend functionality is listed with the key of each backend,
// such as AutogradCPU.
std::string describe_keys() {
  JsonText json;
  json.open('{');
  json.key("key_names");
  json.open('{');
  json.key("backends");
  json.number(static_cast<std::uint64_t>(c10::num_backends));
  json.key("functionalities");
  json.open('[');
  constexpr auto kEnd = static_cast<std::uint16_t>(c10::DispatchKey::EndOfFunctionalityKeys);
  for (std::uint16_t i = 1; i < kEnd; ++i) {
    const auto functionality = static_cast<c10::DispatchKey>(i);
    if (!c10::isPerBackendFunctionalityKey(functionality)) {
      json.string(c10::toString(functionality));
      continue;
    }
    json.open('{');
    json.key("name");
    json.string(c10::toString(functionality));
    json.key("keys");
    json.open('[');
    for (std::uint8_t backend = 1; backend <= c10::num_backends; ++backend)
      json.string(c10::toString(c10::toRuntimePerBackendFunctionalityKey(
          functionality, static_cast<c10::BackendComponent>(backend))));
    json.close(']');
    json.close('}');
  }
  json.close(']');
  json.close('}');
  json.close('}');
  return json.text();
}

at::CallbackHandle callbacks = at::INVALID_CALLBACK_HANDLE;

// A child of fork() has no recording until it starts one.
void end_in_forked_child() {
  tensor_log::reset_in_child();
  const std::uint32_t recording = recording_number.load(std::memory_order_relaxed);
  recording_number.store(recording + recording % 2, std::memory_order_relaxed);
}

void watch_forks() {
  hold_across_forks<&records>();
  hold_across_forks<&Callees::get>();
  hold_across_forks<&tensor_log::mutex>();
  static const int result = pthread_atfork(nullptr, nullptr, end_in_forked_child);
  static_cast<void>(result);
}

int enable() {
  if (recording_number.load() % 2 != 0) return -EALREADY;
  Callees::get().restart();
  const std::string keys = describe_keys();
  agent.keep_record(0, keys.data(), keys.size());
  watch_forks();
  // The callbacks inherited by a forked child.
  if (callbacks != at::INVALID_CALLBACK_HANDLE) at::removeCallback(callbacks);
  recording_number.fetch_add(1);
  callbacks = at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  tensor_log::start();
  watch_library_calls(reinterpret_cast<const void*>(&at::removeCallback));
  return 0;
}

int disable() {
  if (recording_number.load() % 2 == 0) return -EALREADY;
  leave_library_calls();
  recording_number.fetch_add(1);
  at::removeCallback(callbacks);
  callbacks = at::INVALID_CALLBACK_HANDLE;
  tensor_log::stop();
  return 0;
}

}  // namespace

void record_library_call(const Fingerprint& fingerprint, std::uint64_t stack_pointer,
                         const std::function<void(JsonText&)>& write) {
  const std::uint32_t recording = recording_number.load(std::memory_order_acquire);
  if (recording % 2 == 0) return;
  std::uint32_t record = 0;
  try {
    const RecordingPause pause;
    if (ThreadCache* const cache = ThreadCache::get())
      record = cache->id_of(fingerprint, recording, nullptr, [&](JsonText& json) { write(json); });
  } catch (...) {
    record = 0;
  }
  agent.note(kCallRecord, record, stack_pointer, 0);
}

}  // namespace optrace_ops

extern "C" {

int optrace_ops_use(const optrace_recorder_functions* functions) {
  return optrace_ops::use_agent(functions);
}

int optrace_ops_keep_tensors(void* tensor_type, void* sample, const char* not_own,
                             std::uint64_t most) {
  return optrace_ops::without_exceptions([&] {
    optrace_ops::PythonSettings settings{tensor_type, sample};
    for (std::string_view rest = not_own; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      if (end != 0) settings.not_own.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    optrace_ops::tensor_log::request(settings, most);
    return 0;
  });
}

int optrace_ops_enable() {
  return optrace_ops::without_exceptions(optrace_ops::enable);
}

int optrace_ops_disable() {
  return optrace_ops::without_exceptions(optrace_ops::disable);
}

int optrace_ops_start() {
  if (!optrace_ops::has_agent.load()) return -EINVAL;
  const int started = optrace_ops::agent.start();
  if (started != 0) return started;
  const int enabled = optrace_ops_enable();
  if (enabled != 0) optrace_ops::agent.stop();
  return enabled;
}

int optrace_ops_stop() {
  if (!optrace_ops::has_agent.load()) return -EINVAL;
  optrace_ops_disable();
  return optrace_ops::agent.stop();
}

}  // extern "C"
