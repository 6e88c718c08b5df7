#include "target/op_recorder/op_records.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <pthread.h>
#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include "target/interface/recording_format.h"
#include "target/op_recorder/library_calls.h"
#include "target/op_recorder/repeated_calls.h"
#include "target/op_recorder/tensor_facts.h"
#include "target/op_recorder/tensor_journal.h"
#include "target/recorder/agent_functions.h"
#include "target/recorder/fingerprint.h"
#include "target/recorder/fork_lock.h"
#include "target/recorder/json_fingerprint.h"
#include "target/recorder/json_text.h"
#include "target/recorder/record_store.h"
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

constexpr std::size_t kMaxSchemas = 16384;  // PyTorch 2.6 has 3,400, and all are small.
// Number of elements of a list that a record contains.
constexpr std::size_t kMaxElements = 64;
// Number of characters of a string that a record contains.
constexpr std::size_t kMaxCharacters = 200;
// Number of argument tensors that are compared with the results.
constexpr std::size_t kMaxTracked = 32;
// Limits for ops with a value that differs in every call (such as a step count), which must not
// fill the table. Beyond the first number of records, an op's records omit numbers and strings;
// beyond the second, also shapes.
constexpr std::uint32_t kManyRecords = 512;
constexpr std::uint32_t kTooManyRecords = 2048;

// Meaning of an integer argument according to the schema.
enum class ArgumentKind : std::uint8_t { plain, dtype, layout, memory_format };

struct ArgumentName {
  std::string name;
  ArgumentKind kind = ArgumentKind::plain;
  bool written = false;            // Or may be written.
  bool written_by_schema = false;  // The schema says so.
};

// A function named by RecordFunction: an op, or a function without a schema (a custom autograd
// function).
struct Callee {
  std::string name;    // `aten::add.Tensor`
  std::string schema;  // Empty for a function without a schema.
  std::vector<ArgumentName> arguments;
  std::size_t results = 0;
  std::atomic<std::uint32_t> records{0};
  bool writes = true;            // It writes, or may write, to an argument.
  bool repeatable = false;       // The same inputs give the same results.
  bool may_return_view = false;  // According to the schema.
  std::atomic<bool> made_tensor{false};

  // Returns true if the record of an argument tells whether the op may write to it.
  bool may_write_to(std::uint32_t argument) const {
    return writes && (argument >= arguments.size() || arguments[argument].written);
  }

  // Returns true if an equal call would have computed a new tensor.
  bool worth_comparing() const {
    return repeatable && (!may_return_view || made_tensor.load(std::memory_order_relaxed));
  }

  Precision precision() const {
    const std::uint32_t count = records.load(std::memory_order_relaxed);
    return count < kManyRecords      ? Precision::everything
           : count < kTooManyRecords ? Precision::no_values
                                     : Precision::no_shapes;
  }
};

// Counts calls of enable and disable; odd while enabled.
std::atomic<std::uint32_t> recording_number{0};

// Never destroyed, as what else all threads share, because threads may run ops until the process
// ends.
RecordStore& records() {
  static RecordStore& records = *new RecordStore;
  return records;
}

// The functions that RecordFunction has named.
class Callees {
 public:
  static Callees& get() {
    static Callees& callees = *new Callees;
    return callees;
  }

  // Removes the numbers of records in an earlier recording.
  void restart() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [name, callee] : callees_) callee->records = 0;
  }

  // Returns the op that `function` calls, or null if there is no room for another.
  Callee* callee_of(const at::RecordFunction& function) {
    const char* const name = function.name();
    const std::lock_guard<std::mutex> lock(mutex_);
    // A schema's name keeps its address while the op is registered, so the address identifies the
    // op without a comparison of overloads. The name of a function without a schema may be at any
    // address.
    const auto known = ops_.find(name);
    if (known != ops_.end() && is_overload_of(*known->second, name)) return known->second;
    if (callees_.size() >= kMaxSchemas) return nullptr;
    const auto schema = function.operator_schema();
    Callee*& callee = schema ? ops_[name] : functions_[name];
    if (schema || callee == nullptr) {
      auto made = schema ? describe(*schema, function.operator_name()) : std::make_unique<Callee>();
      if (!schema) made->name = name;
      std::unique_ptr<Callee>& kept = callees_[made->name];
      if (kept == nullptr || kept->schema != made->schema) {
        // The old description of an op that was registered again may still be in use.
        if (kept != nullptr) outdated_.push_back(std::move(kept));
        kept = std::move(made);
      }
      callee = kept.get();
    }
    return callee;
  }

  static bool is_overload_of(const Callee& callee, const char* name) {
    const std::size_t size = std::strlen(name);
    return callee.name.compare(0, size, name) == 0 &&
           (callee.name.size() == size || callee.name[size] == '.');
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static std::unique_ptr<Callee> describe(const c10::FunctionSchema& schema,
                                          const std::optional<c10::OperatorName>& name) {
    auto callee = std::make_unique<Callee>();
    callee->name = schema.name();
    if (!schema.overload_name().empty()) callee->name += "." + schema.overload_name();
    callee->schema = c10::toString(schema);
    callee->results = schema.returns().size();
    for (const c10::Argument& argument : schema.arguments()) {
      ArgumentKind kind = ArgumentKind::plain;
      const std::string type = argument.real_type()->str();
      if (type.rfind("ScalarType", 0) == 0) kind = ArgumentKind::dtype;
      if (type.rfind("Layout", 0) == 0) kind = ArgumentKind::layout;
      if (type.rfind("MemoryFormat", 0) == 0) kind = ArgumentKind::memory_format;
      const bool by_schema = writes_to(argument);
      callee->arguments.push_back(
          {argument.name(), kind, by_schema || may_write_to(schema, argument), by_schema});
    }
    callee->writes = std::any_of(callee->arguments.begin(), callee->arguments.end(),
                                 [](const ArgumentName& argument) { return argument.written; });
    for (const c10::Argument& result : schema.returns())
      callee->may_return_view = callee->may_return_view || result.alias_info() != nullptr;
    callee->repeatable = !callee->writes && name && is_function_of_inputs(*name);
    return callee;
  }

  static bool writes_to(const c10::Argument& argument) {
    const auto is_written = [](const c10::AliasInfo& alias) { return alias.isWrite(); };
    const c10::AliasInfo* const alias = argument.alias_info();
    return alias != nullptr &&
           (alias->isWrite() || std::any_of(alias->containedTypes().begin(),
                                            alias->containedTypes().end(), is_written));
  }

  // Schemas outside of aten (c10d's, for example) do not tell what they write to, nor do those of
  // aten for the statistics of batch normalization and the noise of rrelu.
  static bool may_write_to(const c10::FunctionSchema& schema, const c10::Argument& argument) {
    return schema.name().rfind("aten::", 0) != 0 || argument.name().rfind("running_", 0) == 0 ||
           argument.name() == "noise";
  }

  // Excludes random ops, and those that are called to get memory of their own.
  static bool is_function_of_inputs(const c10::OperatorName& name) {
    for (const char* const start : {"aten::empty", "aten::new_", "aten::clone"})
      if (name.name.rfind(start, 0) == 0) return false;
    constexpr char kLike[] = "_like";
    constexpr std::size_t kSize = sizeof kLike - 1;
    if (name.name.size() > kSize && name.name.compare(name.name.size() - kSize, kSize, kLike) == 0)
      return false;
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    return handle && !handle->hasTag(at::Tag::nondeterministic_seeded);
  }

  std::mutex mutex_;
  std::unordered_map<const char*, Callee*> ops_;        // By the address of the schema's name.
  std::unordered_map<std::string, Callee*> functions_;  // Functions without a schema, by name.
  std::unordered_map<std::string, std::unique_ptr<Callee>> callees_;
  std::vector<std::unique_ptr<Callee>> outdated_;
};

// Cache of one thread's lookups, so that a repeated call takes no lock.
class ThreadCache {
 public:
  // Returns null while the thread is being destroyed.
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

  // Returns the id of the record with this fingerprint, or 0 if there is no room. `write` adds the
  // keys and values of a new one.
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

  // The number of ops and autograd nodes that the thread is in.
  std::uint32_t depth = 0;
  JournalThread journal;

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

const char* layout_name(c10::Layout layout) {
  switch (layout) {
    case c10::Layout::Strided:
      return "strided";
    case c10::Layout::Sparse:
      return "sparse_coo";
    case c10::Layout::SparseCsr:
      return "sparse_csr";
    case c10::Layout::SparseCsc:
      return "sparse_csc";
    case c10::Layout::SparseBsr:
      return "sparse_bsr";
    case c10::Layout::SparseBsc:
      return "sparse_bsc";
    case c10::Layout::Mkldnn:
      return "_mkldnn";
    case c10::Layout::Jagged:
      return "jagged";
    default:
      return "unknown";
  }
}

const char* memory_format_name(c10::MemoryFormat format) {
  switch (format) {
    case c10::MemoryFormat::Contiguous:
      return "contiguous_format";
    case c10::MemoryFormat::Preserve:
      return "preserve_format";
    case c10::MemoryFormat::ChannelsLast:
      return "channels_last";
    case c10::MemoryFormat::ChannelsLast3d:
      return "channels_last_3d";
    default:
      return "unknown";
  }
}

// The functions below write to a JsonText or a JsonFingerprint.

void write_typed(JsonText& json, const std::string& type) {
  json.open('{');
  json.key("type");
  json.string(type);
  json.close('}');
}

void write_typed(JsonFingerprint& fingerprint, const std::string& type) {
  fingerprint.string(type);
}

// The type is a literal.
template <typename Value, typename Name>
void write_named(JsonText& json, const char* type, const Value& value, Name name_of) {
  json.open('{');
  json.key("type");
  json.string(type);
  json.key("value");
  json.name(value, name_of);
  json.close('}');
}

template <typename Value, typename Name>
void write_named(JsonFingerprint& fingerprint, const char* type, const Value& value, Name name_of) {
  fingerprint.key(type);
  fingerprint.name(value, name_of);
}

bool is_scalar(const c10::IValue& value) {
  return value.isInt() || value.isDouble() || value.isBool() || value.isString() ||
         value.isComplexDouble();
}

std::string text_of(const c10::complex<double>& number) {
  return std::to_string(number.real()) + (number.imag() < 0 ? "" : "+") +
         std::to_string(number.imag()) + "j";
}

template <typename Out>
void write_integer(Out& out, std::int64_t value, ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::dtype:
      write_named(out, "dtype", static_cast<c10::ScalarType>(value), dtype_name);
      break;
    case ArgumentKind::layout:
      write_named(out, "layout", static_cast<c10::Layout>(value), layout_name);
      break;
    case ArgumentKind::memory_format:
      write_named(out, "memory_format", static_cast<c10::MemoryFormat>(value), memory_format_name);
      break;
    case ArgumentKind::plain:
      out.number(value);
      break;
  }
}

template <typename Out>
void write_scalar(Out& out, const c10::IValue& value, ArgumentKind kind, Precision precision) {
  const bool valued = precision < Precision::no_values;
  if (value.isBool()) {
    out.boolean(value.toBool());
  } else if (value.isInt() && (valued || kind != ArgumentKind::plain)) {
    write_integer(out, value.toInt(), kind);
  } else if (!valued) {
    write_typed(out, value.isInt()      ? "int"
                     : value.isDouble() ? "float"
                     : value.isString() ? "str"
                                        : "complex");
  } else if (value.isDouble()) {
    out.number(value.toDouble());
  } else if (value.isString()) {
    const std::string& text = value.toStringRef();
    out.string(text.size() <= kMaxCharacters ? text : text.substr(0, kMaxCharacters) + "...");
  } else {
    write_named(out, "complex", value.toComplexDouble(), text_of);
  }
}

// Writes the elements of a list with `write`, and how many it leaves out. A list whose elements
// differ in every call is not `counted`: the first one stands for all.
template <typename Out, typename Write>
void write_list(Out& out, c10::ArrayRef<c10::IValue> elements, bool counted, Write write) {
  const std::size_t shown = std::min(elements.size(), counted ? kMaxElements : 1);
  out.open('[');
  for (std::size_t i = 0; i < shown; ++i) write(elements[i]);
  if (!counted)
    write_typed(out, "more");
  else if (elements.size() > shown)
    write_named(out, "more", elements.size() - shown,
                [](std::size_t count) { return std::to_string(count); });
  out.close(']');
}

// An argument tensor, to be compared with the results. The pointers are never dereferenced.
struct TrackedTensor {
  const c10::TensorImpl* tensor;
  const c10::StorageImpl* storage;
  std::uint32_t argument;
};

// An op between its begin and its end.
class RunningOp final : public at::ObserverContext {
 public:
  RunningOp(std::uint32_t recording, std::uint32_t depth) : recording_(recording), depth_(depth) {}

  std::uint32_t recording() const { return recording_; }
  // The number of ops and nodes around it in the thread.
  std::uint32_t depth() const { return depth_; }
  bool is_repeated() const { return repeated_; }
  void set_repeated() { repeated_ = true; }
  Callee* callee() const { return callee_; }
  void set_callee(Callee* callee) { callee_ = callee; }
  // The call in the journal of tensors, or null.
  JournalCall* journal_call() const { return journal_call_.get(); }
  void set_journal_call(std::unique_ptr<JournalCall> call) { journal_call_ = std::move(call); }

  void track(const c10::TensorImpl& tensor, std::uint32_t argument) {
    if (count_ == kMaxTracked) {
      all_tracked_ = false;
      return;
    }
    const c10::StorageImpl* const storage = storage_of(tensor);
    if (storage == nullptr) all_tracked_ = false;
    tracked_[count_++] = {&tensor, storage, argument};
  }

  struct Relation {
    const char* name = nullptr;  // Null if unknown.
    std::uint32_t argument = 0;

    bool is_of_argument() const { return name == kAlias || name == kView; }
  };

  Relation relation_of(const c10::TensorImpl& result) const {
    for (std::uint32_t i = 0; i < count_; ++i)
      if (tracked_[i].tensor == &result) return {kAlias, tracked_[i].argument};
    const c10::StorageImpl* const storage = storage_of(result);
    if (storage == nullptr) return {};
    for (std::uint32_t i = 0; i < count_; ++i)
      if (tracked_[i].storage == storage) return {kView, tracked_[i].argument};
    // The result may share data with a tensor that has no storage (a sparse one, for example).
    return {all_tracked_ ? kFresh : nullptr, 0};
  }

  // Returns the name of the argument that a result is related to, or null.
  const std::string* name_of_argument(const Relation& relation) const {
    return relation.is_of_argument() && relation.argument < callee_->arguments.size()
               ? &callee_->arguments[relation.argument].name
               : nullptr;
  }

  static constexpr const char* kAlias = "alias";
  static constexpr const char* kView = "view";
  static constexpr const char* kFresh = "fresh";

 private:
  std::uint32_t recording_;
  std::uint32_t depth_;
  std::uint32_t count_ = 0;
  bool repeated_ = false;
  bool all_tracked_ = true;
  Callee* callee_ = nullptr;
  std::unique_ptr<JournalCall> journal_call_;
  TrackedTensor tracked_[kMaxTracked];  ///< The first `count_` are set.
};

// The arguments of a call.
class Arguments {
 public:
  // `compares` is true if the inputs are to be compared with those of other calls.
  Arguments(c10::ArrayRef<const c10::IValue> values, const Callee& callee, Precision precision,
            bool compares)
      : callee_(callee), precision_(precision), compares_(compares) {
    // A boxed call passes the whole stack, with its arguments on top.
    const std::size_t count =
        callee.schema.empty() ? values.size() : std::min(values.size(), callee.arguments.size());
    values_ = values.slice(values.size() - count);
  }

  // Notes what the call does with its tensors: they may be its results, and it may write to them.
  void note_tensors(RunningOp& op) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      note(values_[i], static_cast<std::uint32_t>(i), op, true);
  }

  // Keys of all tensors and generators, computed as in DispatchKeyExtractor.h. Known after
  // note_tensors().
  c10::DispatchKeySet keys() const { return keys_; }

  // The tensors, if they are to be compared. Known after note_tensors(), if the values that are
  // written cover everything else.
  const CallInputs& inputs() const { return inputs_; }

  void add_to(Fingerprint& fingerprint) const {
    JsonFingerprint out(fingerprint);
    for (std::size_t i = 0; i < values_.size(); ++i) write(out, values_[i], kind_of(i), true);
    fingerprint.add(raw(keys_));
  }

  void write(JsonText& json) const {
    json.key("arguments");
    json.open('[');
    for (std::size_t i = 0; i < values_.size(); ++i) {
      json.open('{');
      json.key("name");
      if (i < callee_.arguments.size())
        json.string(callee_.arguments[i].name);
      else
        json.null();
      json.key("value");
      write(json, values_[i], kind_of(i), true);
      json.close('}');
    }
    json.close(']');
  }

  void add_to(JournalCall& call) const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const bool named = i < callee_.arguments.size();
      tensor_journal::add_argument(call, named ? callee_.arguments[i].name.c_str() : nullptr,
                                   named && callee_.arguments[i].written_by_schema, values_[i]);
    }
  }

 private:
  ArgumentKind kind_of(std::size_t argument) const {
    return argument < callee_.arguments.size() ? callee_.arguments[argument].kind
                                               : ArgumentKind::plain;
  }

  void note(const c10::IValue& value, std::uint32_t argument, RunningOp& op, bool outermost) {
    if (value.isTensor()) {
      if (const c10::TensorImpl* const tensor = tensor_in(value)) note(*tensor, argument, op);
    } else if (value.isString()) {
      if (value.toStringRef().size() > kMaxCharacters) inputs_.add_unknown();
    } else if (value.isList() && outermost) {
      const auto elements = value.toListRef();
      if (elements.size() > kMaxElements) inputs_.add_unknown();
      for (const c10::IValue& element : elements) note(element, argument, op, false);
    } else if (value.isGenerator()) {
      inputs_.add_unknown();
      const at::Generator generator = value.toGenerator();
      if (generator.defined()) keys_ = keys_ | generator.key_set();
    } else if (!is_scalar(value) && !value.isNone() && !value.isDevice()) {
      inputs_.add_unknown();
    }
  }

  void note(const c10::TensorImpl& tensor, std::uint32_t argument, RunningOp& op) {
    keys_ = keys_ | tensor.key_set();
    op.track(tensor, argument);
    if (callee_.may_write_to(argument))
      if (const c10::StorageImpl* const storage = storage_of(tensor)) Writes::add(storage);
    if (!compares_) return;
    if (TensorFacts(tensor).is_plain())
      inputs_.add(tensor, TensorMembers::offset(tensor));
    else
      inputs_.add_unknown();
  }

  template <typename Out>
  void write(Out& out, const c10::IValue& value, ArgumentKind kind, bool outermost) const {
    if (value.isTensor()) {
      const c10::TensorImpl* const tensor = tensor_in(value);
      if (tensor == nullptr) {
        out.null();
        return;
      }
      out.open('{');
      TensorFacts(*tensor).write(out, precision_);
      out.close('}');
    } else if (value.isNone()) {
      out.null();
    } else if (is_scalar(value)) {
      write_scalar(out, value, kind, precision_);
    } else if (value.isList() && outermost) {
      write_list(out, value.toListRef(), precision_ < Precision::no_values,
                 [&](const c10::IValue& element) { write(out, element, kind, false); });
    } else if (value.isDevice()) {
      write_named(out, "Device", value.toDevice(),
                  [](const c10::Device& device) { return device.str(); });
    } else {
      write_typed(out, value.tagKind());
    }
  }

  c10::ArrayRef<const c10::IValue> values_;
  const Callee& callee_;
  Precision precision_;
  bool compares_;
  CallInputs inputs_;
  c10::DispatchKeySet keys_;
};

// State of the thread that influences the dispatcher's choice in addition to the arguments.
struct ThreadState {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  bool grad_mode = c10::GradMode::is_enabled();
  bool inference_mode = c10::InferenceMode::is_enabled();
  std::int64_t dispatch_modes = c10::impl::TorchDispatchModeTLS::stack_len();
};

// The line of TorchScript that the thread's interpreter executes.
class ScriptLine {
 public:
  ScriptLine() {
    // The innermost function is the last.
    if (const auto calls = torch::jit::currentCallstack(); !calls.empty())
      range_ = calls.back().range;
  }

  void add_to(Fingerprint& fingerprint) const {
    fingerprint.add(reinterpret_cast<std::uintptr_t>(range_.source().get()));
    fingerprint.add(range_.start());
  }

  void write(JsonText& json) const {
    if (range_.source() == nullptr) return;
    // A function that was saved is in another file than the one that it was made from.
    const auto original = range_.findSourceRangeThatGenerated();
    const auto place = (original ? *original : range_).file_line_col();
    if (!place) return;
    json.key("script");
    json.open('{');
    json.key("file");
    json.string(std::get<0>(*place));
    json.key("line");
    json.number(static_cast<std::uint64_t>(std::get<1>(*place)));
    json.close('}');
  }

 private:
  torch::jit::SourceRange range_;
};

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
  arguments.note_tensors(op);
  Fingerprint fingerprint;
  fingerprint.add(reinterpret_cast<std::uintptr_t>(callee));
  fingerprint.add(static_cast<std::uint64_t>(precision));
  arguments.add_to(fingerprint);
  if (JournalCall* const call = op.journal_call()) {
    arguments.add_to(*call);
    // With a journal, each place that calls the op has records of its own.
    fingerprint.add(call->outer.record);
    if (call->outer.call == 0)
      fingerprint.add((static_cast<std::uint64_t>(cache.journal.file) << 32U) | cache.journal.line);
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

// The results of an op.
class Results {
 public:
  Results(c10::ArrayRef<c10::IValue> values, const RunningOp& op, Precision precision)
      : op_(op), precision_(precision) {
    const std::size_t count = std::min(values.size(), op.callee()->results);
    values_ = values.slice(values.size() - count);
    // A repeated call that returns views computes nothing.
    repeated_ = op.is_repeated() && has_new_tensor();
  }

  bool has_new_tensor() const {
    bool found = false;
    for_each_tensor([&](const c10::TensorImpl& tensor) {
      found = found || op_.relation_of(tensor).name == RunningOp::kFresh;
    });
    return found;
  }

  void add_to(Fingerprint& fingerprint) const {
    JsonFingerprint out(fingerprint);
    for (const c10::IValue& value : values_) write(out, value, true);
    fingerprint.add(repeated_ ? 1 : 0);
  }

  void add_to(JournalCall& call) const {
    for_each_tensor([&](const c10::TensorImpl& tensor) {
      const RunningOp::Relation relation = op_.relation_of(tensor);
      const std::string* const of = op_.name_of_argument(relation);
      tensor_journal::add_result(call, tensor, relation.name,
                                 of == nullptr ? nullptr : of->c_str());
    });
  }

  void write(JsonText& json) const {
    json.key("results");
    json.open('[');
    for (const c10::IValue& value : values_) write(json, value, true);
    json.close(']');
    if (repeated_) {
      json.key("repeated");
      json.boolean(true);
    }
  }

 private:
  template <typename Visit>
  void for_each_tensor(Visit visit) const {
    const auto visit_if_tensor = [&](const c10::IValue& value) {
      if (!value.isTensor()) return;
      if (const c10::TensorImpl* const tensor = tensor_in(value)) visit(*tensor);
    };
    for (const c10::IValue& value : values_) {
      visit_if_tensor(value);
      if (!value.isList()) continue;
      const auto elements = value.toListRef();
      for (std::size_t i = 0; i < std::min(elements.size(), kMaxElements); ++i)
        visit_if_tensor(elements[i]);
    }
  }

  template <typename Out>
  void write(Out& out, const c10::IValue& value, bool outermost) const {
    if (value.isTensor()) {
      const c10::TensorImpl* const tensor = tensor_in(value);
      if (tensor == nullptr) {
        out.null();
        return;
      }
      out.open('{');
      TensorFacts(*tensor).write(out, precision_);
      write_relation(out, op_.relation_of(*tensor));
      out.close('}');
    } else if (is_scalar(value)) {
      // For a number computed by an op, the type is sufficient.
      write_scalar(out, value, ArgumentKind::plain, Precision::no_values);
    } else if (value.isList() && outermost) {
      write_list(out, value.toListRef(), true,
                 [&](const c10::IValue& element) { write(out, element, false); });
    } else {
      write_typed(out, value.tagKind());
    }
  }

  template <typename Out>
  void write_relation(Out& out, const RunningOp::Relation& relation) const {
    out.key("relation");
    if (relation.name == nullptr)
      out.null();
    else
      out.name(relation.name, [](const char* name) { return name; });
    if (!relation.is_of_argument()) return;
    out.key("of");
    const std::string* const of = op_.name_of_argument(relation);
    out.string(of == nullptr ? "" : *of);
  }

  c10::ArrayRef<c10::IValue> values_;
  const RunningOp& op_;
  Precision precision_;
  bool repeated_ = false;
};

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
  if (JournalCall* const call = op.journal_call()) results.add_to(*call);
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
std::uint64_t whereabouts(const at::RecordFunction& function) {
  constexpr std::uintptr_t kNear = 1U << 16U;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const auto there = reinterpret_cast<std::uintptr_t>(&function);
  const std::uint64_t place = there > here && there - here < kNear ? there >> 3U : 0;
  return (place << 32U) | (function.threadId() & 0xFFFF'FFFFU);
}

void note_in_journal(const at::RecordFunction& function, std::uint32_t record, JournalCall& call) {
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
      if (tensor_journal::is_on())
        op->set_journal_call(tensor_journal::begin(cache->journal, is_node(function)));
      record = is_node(function) ? record_of_node(function, *cache, recording)
                                 : record_of_call(function, *cache, *op);
      if (JournalCall* const call = op->journal_call()) note_in_journal(function, record, *call);
      cache->journal.record = record;
    }
  } catch (...) {
    // Out of memory, or an unexpected property of this PyTorch: the call is still counted.
    record = 0;
  }
  const auto number = static_cast<std::uint64_t>(function.seqNr());
  if (is_node(function))
    agent.note(kNodeBegin, record, number, function.forwardThreadId());
  else
    agent.note(kOpBegin, record, number, whereabouts(function));
  return op;
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto* const op = static_cast<const RunningOp*>(context);
  if (op == nullptr) return;
  ThreadCache* const cache = ThreadCache::get();
  if (cache != nullptr) {
    cache->depth = op->depth();
    if (const JournalCall* const call = op->journal_call())
      tensor_journal::leave(cache->journal, *call);
  }
  // Ignore an op that began outside this recording.
  if (op->recording() != recording_number.load(std::memory_order_acquire)) return;
  std::uint32_t record = 0;
  try {
    const RecordingPause pause;
    if (cache != nullptr && !is_node(function)) record = record_of_results(function, *cache, *op);
    if (cache != nullptr && op->journal_call() != nullptr) {
      const char* const name =
          op->callee() != nullptr ? op->callee()->name.c_str() : function.name();
      tensor_journal::end(cache->journal, *op->journal_call(), name, is_node(function));
    }
  } catch (...) {
    record = 0;
  }
  agent.note(is_node(function) ? kNodeEnd : kOpEnd, record,
             static_cast<std::uint64_t>(function.seqNr()),
             is_node(function) ? function.threadId() : whereabouts(function));
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
  tensor_journal::forget();
  const std::uint32_t recording = recording_number.load(std::memory_order_relaxed);
  recording_number.store(recording + recording % 2, std::memory_order_relaxed);
}

void watch_forks() {
  hold_across_forks<&records>();
  hold_across_forks<&Callees::get>();
  hold_across_forks<&tensor_journal::mutex>();
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
  tensor_journal::start();
  watch_library_calls(reinterpret_cast<const void*>(&at::removeCallback));
  return 0;
}

int disable() {
  if (recording_number.load() % 2 == 0) return -EALREADY;
  leave_library_calls();
  recording_number.fetch_add(1);
  at::removeCallback(callbacks);
  callbacks = at::INVALID_CALLBACK_HANDLE;
  tensor_journal::stop();
  return 0;
}

}  // namespace

void note_library_call(const Fingerprint& fingerprint, std::uint64_t stack_pointer,
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
    optrace_ops::tensor_journal::request(settings, most);
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
