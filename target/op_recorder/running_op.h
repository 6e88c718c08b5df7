#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <ATen/record_function.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "target/op_recorder/callees.h"
#include "target/op_recorder/tensors/tensor_facts.h"
#include "target/op_recorder/tensors/tensor_log.h"

namespace optrace_ops {

/// Number of argument tensors that are compared with the results.
constexpr std::size_t kMaxTracked = 32;

/// An argument tensor, to be compared with the results. The pointers are never dereferenced.
struct TrackedTensor {
  const c10::TensorImpl* tensor;
  const c10::StorageImpl* storage;
  std::uint32_t argument;
};

/// An op between its begin and its end.
class RunningOp final : public at::ObserverContext {
 public:
  RunningOp(std::uint32_t recording, std::uint32_t depth) : recording_(recording), depth_(depth) {}

  std::uint32_t recording() const { return recording_; }
  /// The number of ops and nodes around it in the thread.
  std::uint32_t depth() const { return depth_; }
  bool is_repeated() const { return repeated_; }
  void set_repeated() { repeated_ = true; }
  Callee* callee() const { return callee_; }
  void set_callee(Callee* callee) { callee_ = callee; }
  /// The call in the log of tensors, or null.
  LoggedCall* logged_call() const { return logged_call_.get(); }
  void set_logged_call(std::unique_ptr<LoggedCall> call) { logged_call_ = std::move(call); }

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
    const char* name = nullptr;  ///< Null if unknown.
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

  /// Returns the name of the argument that a result is related to, or null.
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
  std::unique_ptr<LoggedCall> logged_call_;
  TrackedTensor tracked_[kMaxTracked];  ///< The first `count_` are set.
};

}  // namespace optrace_ops
