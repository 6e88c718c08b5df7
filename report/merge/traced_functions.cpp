#include "report/merge/traced_functions.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/core.h>

#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/functions/function_roles.h"
#include "pytorch/symbols/symbol_key.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {

TracedFunctions::TracedFunctions(const Trace& trace, const Index* index, SourceLink links,
                                 bool of_torch)
    : trace_(trace),
      index_(index),
      links_(std::move(links)),
      of_torch_(of_torch),
      generated_(trace.meta),
      debug_lines_(trace),
      facts_(trace.functions.size()) {}

const FunctionFacts& TracedFunctions::operator[](std::uint32_t function) {
  std::unique_ptr<FunctionFacts>& facts = facts_[function];
  if (facts == nullptr) facts = describe(function);
  return *facts;
}

std::unique_ptr<FunctionFacts> TracedFunctions::describe(std::uint32_t number) {
  const TraceFunction& function = trace_.functions[number];
  auto facts = std::make_unique<FunctionFacts>();
  if (function.module < trace_.modules.size())
    facts->library =
        std::filesystem::path(trace_.modules[function.module].path).filename().string();
  facts->name = function.symbol.empty()
                    ? fmt::format("{}+{:#x}", facts->library.value_or("?"), function.address)
                    : qualified_name(function.symbol);
  facts->classification = classify(facts->name, facts->library.value_or(""));
  const GeneratedCode::Kernel* const kernel = generated_kernel(function);
  if (kernel != nullptr) {
    facts->name = kernel->name;
    // A function called `kernel` may belong to several graphs, which its caller tells apart.
    if (function.symbol == kernel->name) facts->origins = &kernel->origins;
  }
  facts->emulated = is_emulated(facts->library);
  if (const auto step = dispatcher_step(facts->name)) {
    facts->step = step;
    if (!step->op.empty()) facts->op = op_of(step->op);
  }
  if (kernel != nullptr && !kernel->file.empty()) {
    FrameSource source;
    source.file = kernel->file;
    source.line = kernel->line;
    facts->source = std::move(source);
    return facts;
  }
  facts->source = debug_lines_.definition_of(number);
  if (index_ == nullptr || function.symbol.empty()) return facts;
  facts->indexed = {canonical_symbol(function.symbol),
                    source_file_of(function.symbol, function.source_file),
                    facts->library.value_or("")};
  if (!facts->source) facts->source = definition_of(facts->indexed);
  if (of_torch_)
    facts->result = index_->result_type_of(facts->indexed.symbol, facts->indexed.source_file,
                                           facts->indexed.library);
  const auto& result = facts->result;
  if (result && is_decision(*result) && result->value_form != ResultForm::boolean)
    facts->decisions =
        decisions_in_source(*index_, facts->indexed.symbol, facts->indexed.source_file);
  return facts;
}

const GeneratedCode::Kernel* TracedFunctions::generated_kernel(
    const TraceFunction& function) const {
  if (function.module >= trace_.modules.size()) return nullptr;
  return generated_.kernel_of(trace_.modules[function.module].path, function.symbol);
}

bool TracedFunctions::is_emulated(const std::optional<std::string>& library) const {
  if (!library) return false;
  const auto& dry_run = trace_.meta.dry_run;
  return dry_run && std::ranges::find(dry_run->libraries, *library) != dry_run->libraries.end();
}

std::optional<FrameSource> TracedFunctions::definition_of(const IndexedFunction& function) const {
  if (index_ == nullptr) return std::nullopt;
  const auto found =
      index_->find_definition(function.symbol, function.source_file, function.library);
  if (!found) return std::nullopt;
  return source_at(found->location);
}

FrameSource TracedFunctions::source_at(const SourceLocation& location) const {
  FrameSource source;
  source.file = location.file;
  source.line = location.line;
  source.url = links_.of_native(source.file, source.line);
  source.approximate = approximation_of(location);
  return source;
}

std::optional<LineInterval> TracedFunctions::approximation_of(
    const SourceLocation& location) const {
  if (location.line == 0) return std::nullopt;
  // The bounds are lines of the index's torch.
  return of_torch_ ? location.approximate : LineInterval();
}

std::optional<std::string> TracedFunctions::op_of(std::string_view unambiguous_name) const {
  const auto& names = trace_.meta.op_names;
  if (const auto found = names.find(std::string(unambiguous_name)); found != names.end())
    return found->second;
  if (index_ != nullptr)
    if (const auto entry = index_->find_op(unambiguous_name)) return std::string(entry->name);
  return std::nullopt;
}

// Returns the function's role if it is a dispatcher step that takes any op, else null.
const DispatcherStep* TracedFunctions::boxed_step(std::uint32_t function) {
  if (function == kNone) return nullptr;
  const std::optional<DispatcherStep>& step = (*this)[function].step;
  return step && step->op.empty() ? &*step : nullptr;
}

bool TracedFunctions::is_boxed_call(std::uint32_t function) {
  const DispatcherStep* const step = boxed_step(function);
  return step != nullptr && !step->redispatch;
}

bool TracedFunctions::is_boxed_redispatch(std::uint32_t function) {
  const DispatcherStep* const step = boxed_step(function);
  return step != nullptr && step->redispatch;
}

bool TracedFunctions::forwards_op(std::uint32_t function) const {
  return function != kNone && role_of(trace_.functions[function].symbol).forwards_op;
}

}  // namespace optrace
