#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/TensorImpl.h>

#include "target/op_recorder/callees.h"
#include "target/op_recorder/repeated_calls.h"
#include "target/op_recorder/running_op.h"
#include "target/op_recorder/tensors/tensor_facts.h"
#include "target/op_recorder/tensors/tensor_log.h"
#include "target/op_recorder/values.h"
#include "target/recorder/fingerprint.h"
#include "target/recorder/json_fingerprint.h"
#include "target/recorder/json_text.h"

namespace optrace_ops {

/// The arguments of a call.
class Arguments {
 public:
  /// `compares` is true if the inputs are to be compared with those of other calls.
  Arguments(c10::ArrayRef<const c10::IValue> values, const Callee& callee, Precision precision,
            bool compares)
      : callee_(callee), precision_(precision), compares_(compares) {
    // A boxed call passes the whole stack, with its arguments on top.
    const std::size_t count =
        callee.schema.empty() ? values.size() : std::min(values.size(), callee.arguments.size());
    values_ = values.slice(values.size() - count);
  }

  /// Records what the call does with its tensors: they may be its results, and it may write to
  /// them.
  void record_tensors(RunningOp& op) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      note(values_[i], static_cast<std::uint32_t>(i), op, true);
  }

  /// Keys of all tensors and generators, computed as in DispatchKeyExtractor.h. Known after
  /// record_tensors().
  c10::DispatchKeySet keys() const { return keys_; }

  /// The tensors, if they are to be compared. Known after record_tensors(), if the values that are
  /// written cover everything else.
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

  void add_to(LoggedCall& call) const {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const bool named = i < callee_.arguments.size();
      tensor_log::add_argument(call, named ? callee_.arguments[i].name.c_str() : nullptr,
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

}  // namespace optrace_ops
