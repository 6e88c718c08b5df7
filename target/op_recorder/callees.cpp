#include "target/op_recorder/callees.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>

namespace optrace_ops {
namespace {

constexpr std::size_t kMaxSchemas = 16384;  // PyTorch 2.6 has 3,400, and all are small.

bool writes_to(const c10::Argument& argument) {
  const auto is_written = [](const c10::AliasInfo& alias) { return alias.isWrite(); };
  const c10::AliasInfo* const alias = argument.alias_info();
  return alias != nullptr &&
         (alias->isWrite() ||
          std::any_of(alias->containedTypes().begin(), alias->containedTypes().end(), is_written));
}

// Schemas outside of aten (c10d's, for example) do not tell what they write to, nor do those of
// aten for the statistics of batch normalization and the noise of rrelu.
bool may_write_to(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  return schema.name().rfind("aten::", 0) != 0 || argument.name().rfind("running_", 0) == 0 ||
         argument.name() == "noise";
}

// Excludes random ops, and those that are called to get memory of their own.
bool is_function_of_inputs(const c10::OperatorName& name) {
  for (const char* const start : {"aten::empty", "aten::new_", "aten::clone"})
    if (name.name.rfind(start, 0) == 0) return false;
  constexpr char kLike[] = "_like";
  constexpr std::size_t kSize = sizeof kLike - 1;
  if (name.name.size() > kSize && name.name.compare(name.name.size() - kSize, kSize, kLike) == 0)
    return false;
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  return handle && !handle->hasTag(at::Tag::nondeterministic_seeded);
}

std::unique_ptr<Callee> describe(const c10::FunctionSchema& schema,
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

}  // namespace

Callees& Callees::get() {
  static Callees& callees = *new Callees;
  return callees;
}

void Callees::restart() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [name, callee] : callees_) callee->records = 0;
}

Callee* Callees::callee_of(const at::RecordFunction& function) {
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

}  // namespace optrace_ops
