#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/record_function.h>

#include "target/op_recorder/tensors/tensor_facts.h"

namespace optrace_ops {

/// Limits for ops with a value that differs in every call (such as a step count), which must not
/// fill the store. Beyond the first number of records, an op's records omit numbers and strings;
/// beyond the second, also shapes.
constexpr std::uint32_t kManyRecords = 512;
constexpr std::uint32_t kTooManyRecords = 2048;

/// Meaning of an integer argument according to the schema.
enum class ArgumentKind : std::uint8_t { plain, dtype, layout, memory_format };

struct ArgumentName {
  std::string name;
  ArgumentKind kind = ArgumentKind::plain;
  bool written = false;            ///< Or may be written.
  bool written_by_schema = false;  ///< The schema says so.
};

/// A function named by RecordFunction: an op, or a function without a schema (a custom autograd
/// function).
struct Callee {
  std::string name;    ///< `aten::add.Tensor`
  std::string schema;  ///< Empty for a function without a schema.
  std::vector<ArgumentName> arguments;
  std::size_t results = 0;
  std::atomic<std::uint32_t> records{0};
  bool writes = true;            ///< It writes, or may write, to an argument.
  bool repeatable = false;       ///< The same inputs give the same results.
  bool may_return_view = false;  ///< According to the schema.
  std::atomic<bool> made_tensor{false};

  /// Returns true if the record of an argument tells whether the op may write to it.
  bool may_write_to(std::uint32_t argument) const {
    return writes && (argument >= arguments.size() || arguments[argument].written);
  }

  /// Returns true if an equal call would have computed a new tensor.
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

/// The functions that RecordFunction has named. Any number of threads may use them at once.
class Callees {
 public:
  /// Never destroyed, because threads may run ops until the process ends.
  static Callees& get();

  /// Removes the numbers of records in an earlier recording.
  void restart();

  /// Returns the op that `function` calls, or null if there is no room for another.
  Callee* callee_of(const at::RecordFunction& function);

  static bool is_overload_of(const Callee& callee, const char* name) {
    const std::size_t size = std::strlen(name);
    return callee.name.compare(0, size, name) == 0 &&
           (callee.name.size() == size || callee.name[size] == '.');
  }

  /// For forks (target/recorder/fork_lock.h).
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  std::unordered_map<const char*, Callee*> ops_;        ///< By the address of the schema's name.
  std::unordered_map<std::string, Callee*> functions_;  ///< Functions without a schema, by name.
  std::unordered_map<std::string, std::unique_ptr<Callee>> callees_;
  std::vector<std::unique_ptr<Callee>> outdated_;
};

}  // namespace optrace_ops
