#include "target/op_recorder/tensors/tensor_log.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include <c10/core/Storage.h>

#include "target/op_recorder/tensors/saved_variables.h"
#include "target/op_recorder/tensors/storage_table.h"
#include "target/op_recorder/tensors/tensor_facts.h"
#include "target/op_recorder/tensors/tensor_swaps.h"
#include "target/op_recorder/tensors/tensor_table.h"
#include "target/recorder/agent_functions.h"
#include "target/recorder/json_text.h"

namespace optrace_ops::tensor_log {
namespace {

constexpr std::size_t kChunkText = 64UL << 10U;  // One record.
// A process that is killed, or ends by os._exit(), loses at most this fraction of its log.
constexpr std::uint64_t kLost = 8;
constexpr std::size_t kMaxElements = 64;  // Tensors of a list.
// Values in containers and attributes that a look at a scope may cost, on average: after a look at
// N times as many, the next N looks leave them out.
constexpr std::size_t kNestedOfLook = 64;

void write_number(JsonText& json, const char* key, std::uint64_t number) {
  json.key(key);
  json.number(number);
}

void write_text(JsonText& json, const char* key, const char* text) {
  json.key(key);
  json.string(text);
}

void append(std::string& values, const JsonText& json) {
  if (!values.empty()) values += ',';
  values += json.text();
}

// The state of the thread that looks at its variables.
thread_local const LoggedThread* looking = nullptr;
// The number of the innermost call of the thread.
thread_local std::uint32_t innermost = 0;

// Visits variables with the GIL held, and takes the lock of the log then. A thread that holds
// the lock therefore must not take the GIL.
class Log final : public VariableVisitor {
 public:
  static Log& get() {
    static Log& log = *new Log;  // Threads may run ops until the process ends.
    return log;
  }

  std::mutex& mutex() { return mutex_; }
  bool is_on() const { return on_.load(std::memory_order_relaxed); }

  void start(std::uint64_t most) {
    const Locked lock(*this);
    most_ = most;
    reset();
    on_.store(true);
  }

  void stop() {
    if (is_on()) {
      looking = nullptr;
      look_at_main_module(*this);
    }
    const Locked lock(*this);
    if (on_.exchange(false)) {
      for (const auto& [key, scope] : scopes_)
        if (!scope.function.empty())
          for (const auto& [name, variable] : scope.variables) put_unbound(scope, name);
      put_found();
      record_ended("at_end", 0);
      keep_chunk();
    }
    reset();
  }

  // In a child, no other thread exists, and the lock was taken before the fork.
  void reset_in_child() {
    on_.store(false);
    reset();
  }

  void drop_tensors() {
    const Locked lock(*this);
    tensors_.drop(dropped_.tensors);
  }

  std::unique_ptr<LoggedCall> begin(LoggedThread& thread, bool is_node) {
    auto call = std::make_unique<LoggedCall>();
    call->outer = thread;
    PythonPlace place;
    if (thread.call == 0) {
      {
        const Locked lock(*this);
        record_ended("before", calls_ + 1);
      }
      ++thread.look;
      looking = &thread;
      place = look_at_python(*this);
      looking = nullptr;
    }
    const Locked lock(*this);
    if (place.has_variables) end_scopes(thread);
    put_found();
    if (!place.file.empty()) {
      thread.file = number_of_file(place.file);
      thread.line = place.line;
    } else if (thread.call == 0 && !is_node) {
      thread.file = 0;
    }
    call->number = thread.call = innermost = ++calls_;
    thread.in_node = thread.in_node || is_node;
    return call;
  }

  void add_argument(LoggedCall& call, const char* name, bool written, const c10::IValue& value) {
    if (value.isTensor()) {
      add_tensor_argument(call, name, written, value);
      return;
    }
    if (!value.isList()) return;
    std::size_t left = kMaxElements;
    for (const c10::IValue& element : value.toListRef()) {
      if (!element.isTensor() || left-- == 0) break;
      add_tensor_argument(call, name, written, element);
    }
  }

  void add_result(LoggedCall& call, const c10::TensorImpl& tensor, const char* relation,
                  const char* of) {
    const Locked lock(*this);
    // It may become a gradient, which has a name only if it has a number already.
    if (call.outer.in_node) tensors_.find_or_add(tensor, dropped_.tensors);
    JsonText json;
    json.open('{');
    write_tensor(json, tensor, call, false);
    if (relation != nullptr) write_text(json, "relation", relation);
    if (of != nullptr) write_text(json, "of", of);
    json.close('}');
    append(call.results, json);
  }

  void end(const LoggedThread& thread, const LoggedCall& call, const char* name, bool is_node) {
    JsonText entry;
    entry.open('{');
    write_number(entry, "call", call.number);
    write_text(entry, is_node ? "node" : "op", name);
    if (call.outer.call != 0) {
      write_number(entry, "in", call.outer.call);
    } else if (thread.file != 0) {
      write_number(entry, "file", thread.file);
      write_number(entry, "line", thread.line);
    }
    if (call.record != 0) write_number(entry, "record", call.record);
    if (call.sequence >= 0) {
      write_number(entry, "sequence", static_cast<std::uint64_t>(call.sequence));
      write_number(entry, "thread", call.thread);
    }
    if (!is_node) {
      for (const auto& [key, values] :
           {std::pair("arguments", &call.arguments), std::pair("results", &call.results)}) {
        entry.key(key);
        entry.open('[');
        entry.values(*values);
        entry.close(']');
      }
    }
    entry.close('}');
    const Locked lock(*this);
    if (!is_on()) return;
    put(entry);
    if (call.outer.call == 0) record_ended("during", call.number);
  }

  void record_saved(const c10::TensorImpl& tensor) {
    const std::uint32_t paused = agent.pause_thread();
    {
      const Locked lock(*this);
      const c10::Storage& storage = tensor.unsafe_storage();
      LoggedCall call;
      call.number = innermost;
      call.outer.call = innermost;  // So that a new storage is one of the call's.
      const std::uint32_t number = storage ? number_of(storage, call, true) : 0;
      // A constructor may call the other one.
      if (number != 0 && last_saved_ != std::pair(innermost, number)) {
        last_saved_ = {innermost, number};
        JsonText entry;
        entry.open('{');
        write_number(entry, "saved", number);
        write_number(entry, "call", innermost);
        entry.close('}');
        put(entry);
      }
    }
    agent.resume_thread(paused);
  }

  bool begin(const PythonScope& scope) override {
    mutex_.lock();
    ++look_;
    scope_ = &scopes_[{scope.function, scope.variables}];
    if (scope_->file == 0) scope_->file = number_of_file(scope.file);
    scope_->function = scope.function;
    scope_->thread = looking;
    scope_->look = looking == nullptr ? 0 : looking->look;
    nested_ = looking == nullptr || scope_->looks_without_nested == 0;
    return nested_;
  }

  void add(const PythonVariable& variable) override {
    Variable& known = scope_->variables[std::string(variable.name)];
    known.look = look_;
    const c10::Storage& storage = variable.tensor->unsafe_storage();
    const Variable now{tensors_.find_or_add(*variable.tensor, dropped_.tensors),
                       storage ? number_of(storage, {}, true) : 0,
                       TensorMembers::offset(*variable.tensor),
                       version_of(*variable.tensor),
                       look_,
                       variable.nested};
    if (now.tensor == 0 || known == now) return;
    known = now;
    JsonText entry;
    entry.open('{');
    write_variable(entry, *scope_, std::string(variable.name).c_str());
    write_number(entry, "tensor", now.tensor);
    write_tensor(entry, *variable.tensor, {}, true);
    entry.close('}');
    append(found_, entry);
  }

  void add_gradient(std::string_view name, const c10::TensorImpl* address) override {
    TensorTable::Strong gradient = tensors_.find_alive(address);
    if (!gradient) return;
    add({name, gradient.get(), true});
    dropped_.gradients.push_back(std::move(gradient));
  }

  void end(std::size_t nested) override {
    if (nested_)
      scope_->looks_without_nested = nested / kNestedOfLook;
    else
      --scope_->looks_without_nested;
    auto& variables = scope_->variables;
    for (auto at = variables.begin(); at != variables.end();) {
      if (at->second.look == look_ || (at->second.nested && !nested_)) {
        ++at;
        continue;
      }
      put_unbound(*scope_, at->first);
      at = variables.erase(at);
    }
    unlock_and_drop();
  }

 private:
  // The last known state of a variable.
  struct Variable {
    std::uint32_t tensor = 0;   // Its number in the table of tensors.
    std::uint32_t storage = 0;  // Likewise; 0: none.
    std::int64_t offset = 0;
    std::uint64_t version = 0;
    std::uint64_t look = 0;  // The last look that found it.
    bool nested = false;
    bool operator==(const Variable& other) const {
      return tensor == other.tensor && storage == other.storage && offset == other.offset &&
             version == other.version;
    }
  };
  struct Scope {
    std::uint32_t file = 0;
    std::string function;
    const LoggedThread* thread = nullptr;  // The thread that was looking. Only compared.
    std::uint64_t look = 0;                // The thread's last look that found the scope.
    std::size_t looks_without_nested = 0;  // To come.
    std::unordered_map<std::string, Variable> variables;
  };

  // Holds the lock.
  class Locked {
   public:
    explicit Locked(Log& log) : log_(log) { log_.mutex_.lock(); }
    ~Locked() { log_.unlock_and_drop(); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

   private:
    Log& log_;
  };

  struct Dropped {
    std::vector<StorageTable::Weak> storages;
    std::vector<TensorTable::Weak> tensors;
    std::vector<TensorTable::Strong> gradients;
  };

  // Dropping a reference may take the GIL, and run ops.
  void unlock_and_drop() {
    const Dropped dropped = std::exchange(dropped_, {});
    mutex_.unlock();
  }

  static std::uint64_t version_of(const c10::TensorImpl& tensor) {
    const c10::VariableVersion& version = tensor.version_counter();
    return version.enabled() ? version.current_version() : 0;
  }

  void reset() {
    storages_.clear(dropped_.storages);
    tensors_.clear(dropped_.tensors);
    files_.clear();
    scopes_.clear();
    found_.clear();
    chunk_.clear();
    size_ = 0;
    calls_ = 0;
    peak_bytes_ = 0;
  }

  std::uint32_t number_of_file(const std::string& file) {
    const auto [found, added] = files_.emplace(file, static_cast<std::uint32_t>(files_.size() + 1));
    if (added) {
      JsonText entry;
      entry.open('{');
      write_number(entry, "file", found->second);
      write_text(entry, "path", file.c_str());
      entry.close('}');
      put(entry);
    }
    return found->second;
  }

  static void write_variable(JsonText& json, const Scope& scope, const char* name) {
    write_text(json, "variable", name);
    write_number(json, "file", scope.file);
    if (!scope.function.empty()) write_text(json, "function", scope.function.c_str());
  }

  // A variable that no longer exists, or refers to something else than a tensor.
  void put_unbound(const Scope& scope, const std::string& name) {
    JsonText entry;
    entry.open('{');
    write_variable(entry, scope, name.c_str());
    entry.close('}');
    put(entry);
  }

  // Ends the function calls that are no longer on the thread's stack.
  void end_scopes(const LoggedThread& thread) {
    for (auto at = scopes_.begin(); at != scopes_.end();) {
      const Scope& scope = at->second;
      if (scope.thread != &thread || scope.look == thread.look || scope.function.empty()) {
        ++at;
        continue;
      }
      for (const auto& [name, variable] : scope.variables) put_unbound(scope, name);
      at = scopes_.erase(at);
    }
  }

  void add_tensor_argument(LoggedCall& call, const char* name, bool written,
                           const c10::IValue& value) {
    const c10::TensorImpl* const tensor = tensor_in(value);
    if (tensor == nullptr) return;
    const Locked lock(*this);
    JsonText json;
    json.open('{');
    if (name != nullptr) write_text(json, "name", name);
    write_tensor(json, *tensor, call, true);
    if (written) {
      json.key("written");
      json.boolean(true);
    }
    json.close('}');
    append(call.arguments, json);
  }

  // `existed`: the tensor is older than the call.
  void write_tensor(JsonText& json, const c10::TensorImpl& tensor, const LoggedCall& call,
                    bool existed) {
    TensorFacts(tensor).write_members(json, true);
    write_number(json, "version", version_of(tensor));
    const c10::Storage& storage = tensor.unsafe_storage();
    if (!storage) return;
    if (const std::uint32_t number = number_of(storage, call, existed); number != 0)
      write_number(json, "storage", number);
    json.key("offset");
    json.number(TensorMembers::offset(tensor));
  }

  std::uint32_t number_of(const c10::Storage& storage, const LoggedCall& call, bool existed) {
    const StorageTable::Known known = storages_.find_or_add(storage);
    if (!known.is_new && !known.resized) return known.number;
    JsonText entry;
    entry.open('{');
    write_number(entry, known.is_new ? "storage" : "resized", known.number);
    write_number(entry, "bytes", known.bytes);
    if (known.is_new) write_text(entry, "device", storage.device().str().c_str());
    if (call.number != 0) write_number(entry, "call", call.number);
    // An argument of a call inside another one may have been made there.
    if (known.is_new && existed && call.outer.call == 0) {
      entry.key("existed");
      entry.boolean(true);
    }
    entry.close('}');
    // A peak must not contain storages that have ended meanwhile.
    if (storages_.live_bytes() > peak_bytes_) {
      if (call.number != 0)
        record_ended("during", call.number);
      else
        record_ended("before", calls_ + 1);
      peak_bytes_ = std::max(peak_bytes_, storages_.live_bytes());
    }
    put(entry);
    return known.number;
  }

  void record_ended(const char* when, std::uint32_t call) {
    storages_.take_ended(dropped_.storages, [&](std::uint32_t number) {
      JsonText entry;
      entry.open('{');
      write_number(entry, "ended", number);
      write_number(entry, when, call);
      entry.close('}');
      put(entry);
    });
  }

  void put(const JsonText& entry) { put(entry.text()); }

  void put(const std::string& entries) {
    if (!chunk_.empty()) chunk_ += ',';
    chunk_ += entries;
    if (chunk_.size() >= std::min<std::uint64_t>(size_ / kLost, kChunkText)) keep_chunk();
  }

  // Variables that ended precede those that were found in the same look.
  void put_found() {
    if (found_.empty()) return;
    put(found_);
    found_.clear();
  }

  void keep_chunk() {
    if (chunk_.empty()) return;
    size_ += chunk_.size();
    const bool full = size_ > most_;
    const std::string text = "{\"tensors\":[" + chunk_ + "]" + (full ? ",\"full\":true" : "") + "}";
    chunk_.clear();
    const std::uint32_t id = agent.new_record();
    if (agent.keep_record(id, text.data(), text.size()) != 0 || full) on_.store(false);
  }

  std::mutex mutex_;
  std::atomic<bool> on_{false};
  StorageTable storages_;
  TensorTable tensors_;
  Dropped dropped_;  // To be dropped without the lock.
  std::unordered_map<std::string, std::uint32_t> files_;
  std::map<std::pair<std::string, const void*>, Scope> scopes_;
  Scope* scope_ = nullptr;  // The one that is visited, with the GIL and the lock held.
  bool nested_ = false;     // It is visited with its nested tensors.
  std::uint64_t look_ = 0;
  std::uint32_t calls_ = 0;
  std::pair<std::uint32_t, std::uint32_t> last_saved_;  // A call and a storage.
  std::uint64_t peak_bytes_ = 0;
  std::string found_;  // Entries of the variables that the look has found.
  std::string chunk_;
  std::uint64_t size_ = 0;
  std::uint64_t most_ = 0;  // Largest value of `size_`.
};

std::atomic<std::uint64_t> requested{0};  // Bytes.

}  // namespace

void request(const PythonSettings& settings, std::uint64_t most) {
  if (most != 0 && use_python(settings)) find_swap_function();
  requested.store(most);
}

void start() {
  if (const std::uint64_t most = requested.load(); most != 0) {
    Log::get().start(most);
    watch_saved_variables();
    watch_swaps();
  }
}

void stop() {
  if (requested.load() == 0) return;
  leave_saved_variables();
  leave_swaps();
  Log::get().stop();
}

bool is_on() {
  return Log::get().is_on();
}

std::unique_ptr<LoggedCall> begin(LoggedThread& thread, bool is_node) {
  return is_on() ? Log::get().begin(thread, is_node) : nullptr;
}

void add_argument(LoggedCall& call, const char* name, bool written, const c10::IValue& value) {
  Log::get().add_argument(call, name, written, value);
}

void add_result(LoggedCall& call, const c10::TensorImpl& tensor, const char* relation,
                const char* of) {
  Log::get().add_result(call, tensor, relation, of);
}

void record_saved(const c10::TensorImpl& tensor) {
  if (!is_on() || innermost == 0) return;
  const int number = errno;
  try {
    Log::get().record_saved(tensor);
  } catch (...) {  // NOLINT(bugprone-empty-catch): out of memory, or an unexpected PyTorch.
  }
  errno = number;
}

void drop_tensors() {
  try {
    Log::get().drop_tensors();
  } catch (...) {  // NOLINT(bugprone-empty-catch): out of memory; the swap may then fail.
  }
}

void leave(LoggedThread& thread, const LoggedCall& call) {
  thread.call = innermost = call.outer.call;
  thread.record = call.outer.record;
  thread.in_node = call.outer.in_node;
}

void end(const LoggedThread& thread, const LoggedCall& call, const char* name, bool is_node) {
  Log::get().end(thread, call, name, is_node);
}

std::mutex& mutex() {
  return Log::get().mutex();
}
void reset_in_child() {
  Log::get().reset_in_child();
}

}  // namespace optrace_ops::tensor_log
