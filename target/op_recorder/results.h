#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include <ATen/core/ivalue.h>
#include <c10/core/TensorImpl.h>

#include "target/op_recorder/running_op.h"
#include "target/op_recorder/tensors/tensor_facts.h"
#include "target/op_recorder/tensors/tensor_log.h"
#include "target/op_recorder/values.h"
#include "target/recorder/fingerprint.h"
#include "target/recorder/json_fingerprint.h"
#include "target/recorder/json_text.h"

namespace optrace_ops {

/// The results of an op.
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

  void add_to(LoggedCall& call) const {
    for_each_tensor([&](const c10::TensorImpl& tensor) {
      const RunningOp::Relation relation = op_.relation_of(tensor);
      const std::string* const of = op_.name_of_argument(relation);
      tensor_log::add_result(call, tensor, relation.name, of == nullptr ? nullptr : of->c_str());
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

}  // namespace optrace_ops
