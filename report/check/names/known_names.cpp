#include "report/check/names/known_names.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <ranges>
#include <set>

#include <fmt/core.h>

#include "lookup/locate/locate.h"
#include "lookup/locate/op_spelling.h"
#include "lookup/locate/wheel_symbols.h"
#include "lookup/source_text/python_source.h"
#include "platform/error.h"
#include "platform/text/ascii_text.h"
#include "platform/text/glob.h"
#include "pytorch/functions/generated_names.h"
#include "pytorch/functions/layers.h"
#include "pytorch/functions/probed_functions.h"
#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/names/name_patterns.h"
#include "pytorch/source/cpu_capability.h"
#include "pytorch/symbols/symbol_key.h"
#include "pytorch/symbols/symbol_name.h"
#include "report/check/names/recorded_calls.h"
#include "report/check/names/source_file.h"

namespace optrace {
namespace {

// Words of qualified names that are spelled differently in mangled names.
constexpr auto kUnmangled = std::to_array<std::string_view>({"std", "anonymous", "namespace"});

/// Returns the identifiers that occur in every mangled name that the pattern can match.
std::vector<std::string_view> identifiers_in(std::string_view pattern) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < pattern.size();) {
    std::size_t end = at;
    while (end < pattern.size() && is_word_character(pattern[end])) ++end;
    const std::string_view word = pattern.substr(at, end - at);
    if (!word.empty() && std::ranges::find(kUnmangled, word) == kUnmangled.end())
      words.push_back(word);
    at = std::max(end, at + 1);
  }
  return words;
}

/// Cuts a pattern before the parts that only a run determines: template arguments, lambdas,
/// operators.
std::string statically_known(std::string_view pattern) {
  const std::size_t end =
      std::min({pattern.find('<'), pattern.find("::{"), pattern.find("::operator")});
  if (end == std::string_view::npos || end == 0) return std::string(pattern);
  return std::string(pattern.substr(0, end)) + "*";
}

/// An index contains only one of the functions that are compiled for each CPU capability.
std::string with_one_capability(std::string_view pattern) {
  std::string folded;
  while (true) {
    const std::size_t end = pattern.find("::");
    if (end == std::string_view::npos) return folded + std::string(pattern);
    const std::string_view part = pattern.substr(0, end);
    folded += is_cpu_capability(part) ? std::string_view("*") : part;
    folded += "::";
    pattern.remove_prefix(end + 2);
  }
}

bool names_symbol(std::string_view pattern, const std::vector<std::string_view>& words,
                  std::string_view symbol) {
  const auto holds = [&](std::string_view word) {
    return symbol.find(word) != std::string_view::npos;
  };
  return std::ranges::all_of(words, holds) && names_function(pattern, qualified_name(symbol));
}

/// Returns the name in the processes that multiprocessing spawns, which import the program's file
/// by another name; empty for names that are not of that file.
std::string name_in_spawned(std::string_view name) {
  constexpr std::string_view kMain = "__main__.";
  return name.starts_with(kMain) ? fmt::format("__mp_main__.{}", name.substr(kMain.size()))
                                 : std::string();
}

bool is_path(std::string_view pattern) {
  return pattern.find('.') != std::string_view::npos;
}

/// Returns the library whose functions start like the pattern, up to its first `*`.
std::string_view library_of(std::string_view pattern) {
  const std::string_view start = pattern.substr(0, std::min(pattern.find('*'), pattern.size()));
  const std::string_view library = library_name(start);
  return library == "BLAS/LAPACK" ? std::string_view() : library;
}

}  // namespace

const std::optional<CallsByName> KnownNames::kNoneReported;

KnownNames::KnownNames(std::span<const Trace> traces, const Index* index,
                       const std::optional<CallsByName>& reported)
    : traces_(traces), index_(index), reported_(traces.empty() ? reported : kNoneReported) {}

KnownNames::~KnownNames() = default;

Locator& KnownNames::locator() const {
  if (!locator_) locator_ = std::make_unique<Locator>(*index_);
  return *locator_;
}

const std::vector<PythonName>& KnownNames::python_names() const {
  if (!python_names_) python_names_ = index_->python_names();
  return *python_names_;
}

const std::vector<OpEntry>& KnownNames::ops() const {
  if (!ops_) ops_ = index_->ops();
  return *ops_;
}

const std::vector<Registration>& KnownNames::registrations() const {
  if (!registrations_) registrations_ = index_->registrations();
  return *registrations_;
}

NameTargets KnownNames::targets_of(std::string_view pattern) const {
  NameTargets targets;
  targets.why_unobservable = why_no_call(pattern);
  if (!targets.why_unobservable.empty()) return targets;  // Nothing is a call of the name.
  targets.patterns.emplace_back(pattern);
  const std::string in_spawned = name_in_spawned(pattern);
  if (!in_spawned.empty()) targets.patterns.push_back(in_spawned);
  if (auto op = of_torch_ops(pattern)) targets.patterns.push_back(*std::move(op));
  const bool scoped = pattern.find("::") != std::string_view::npos;
  if (pattern.find('*') != std::string_view::npos) {
    if (index_ != nullptr && !scoped) add_matching_python_names(pattern, targets);
    return targets;
  }
  // A single word is an op's or a function's name unless none has it.
  if (index_ != nullptr && !scoped &&
      (is_path(pattern) || observability_of_pattern(pattern) == Observability::none))
    add_python_names(pattern, targets);
  if (targets.classes.empty())
    for (const std::string_view name : {pattern, std::string_view(in_spawned)})
      if (!name.empty() && is_class_of_trace(name)) targets.classes.emplace_back(name);
  if (is_path(pattern) || observability_of(targets) != Observability::none) return targets;
  // The scopes of a C++ function may be left out.
  std::string scopes_left_out = fmt::format("*::{}", pattern);
  if (observability_of_functions(scopes_left_out) != Observability::none)
    targets.patterns.push_back(std::move(scopes_left_out));
  return targets;
}

std::string KnownNames::why_no_call(std::string_view pattern) const {
  if (pattern.find_first_of("*.") != std::string_view::npos) return {};
  const std::string exact(pattern.substr(0, pattern.find('<')));
  const auto names = [&](std::string_view function) {
    return names_function(exact, function) || names_function("*::" + exact, function);
  };
  if (names("c10::Dispatcher::callWithDispatchKeySlowPath"))
    return "PyTorch calls it only while its ops are recorded, as optrace does";
  const std::vector<std::string_view> words = identifiers_in(exact);
  if (index_ == nullptr || words.empty() || observability_of_ops(exact) != Observability::none)
    return {};
  for (const Registration& one : registrations())
    if (one.kind == RegistrationKind::stub &&
        one.name.find(words.back()) != std::string_view::npos && names(qualified_name(one.name)))
      return "it is a stub, in which its callers look for the kernel of a device";
  return {};
}

void KnownNames::add_python_names(std::string_view pattern, NameTargets& targets) const {
  try {
    for (const PythonName& name : locator().python_names(pattern)) {
      if (name.kind == PythonKind::module_)
        targets.why_unobservable =
            fmt::format("{} is a module; its contents are {}.*", name.name, name.name);
      else
        targets.why_unobservable = why_unobservable(pattern, name, locator());
      // A method inherited from another class can't be attributed to this one.
      if (targets.why_unobservable.empty() || name.kind == PythonKind::class_)
        add_python_name(name, targets);
    }
  } catch (const Error&) {
    return;  // Not a valid Python name.
  }
}

void KnownNames::add_matching_python_names(std::string_view pattern, NameTargets& targets) const {
  if (!is_path(pattern)) return;
  for (const PythonName& name : python_names()) {
    if (!matches_glob(name.name, pattern)) continue;
    if (name.kind != PythonKind::alias) {
      add_python_name(name, targets);
      continue;
    }
    // A class that a module imports (torch.nn.functional.Tensor) does not belong to the module.
    const std::string_view holder = name.name.substr(0, name.name.rfind('.') + 1);
    for (const PythonName& same : locator().python_names(name.name))
      if (same.kind != PythonKind::class_ || same.name.starts_with(holder))
        add_python_name(same, targets);
  }
}

void KnownNames::add_python_name(const PythonName& name, NameTargets& targets) {
  if (name.kind == PythonKind::class_) targets.classes.emplace_back(name.name);
  const bool is_function = name.kind == PythonKind::function || name.kind == PythonKind::builtin;
  if (is_function && !targets.names(name.name)) targets.patterns.emplace_back(name.name);
  if (name.kind == PythonKind::builtin && !name.target.empty())
    targets.bindings.push_back({std::string(name.target), std::string(name.location.file)});
}

NameTargets KnownNames::target_ops(std::string_view pattern) const {
  const NameTargets all = targets_of(pattern);
  NameTargets targets;
  for (const std::string& one : all.patterns)
    if (observability_of_ops(one) != Observability::none) targets.patterns.push_back(one);
  for (const NameTargets::Binding& binding : all.bindings)
    if (auto op = op_bound_by(binding.symbol)) targets.patterns.push_back(*std::move(op));
  if (!targets.patterns.empty()) return targets;
  if (observability_of(all) != Observability::none) targets.why_unobservable = "it is not an op";
  targets.patterns.emplace_back(pattern);
  return targets;
}

std::set<std::string> KnownNames::kernels_of(const NameTargets& targets) const {
  std::set<std::string> kernels;
  if (index_ == nullptr) return kernels;
  const auto add = [&](const OpFacts& facts) {
    for (const OpFacts::Kernel& kernel : facts.kernels)
      kernels.insert(kernel.structured ? kernel.name + "::impl" : kernel.name);
  };
  for (const OpEntry& op : ops()) {
    if (!targets.names(op.name)) continue;
    const OpFacts facts = index_->facts_of(op);
    add(facts);
    if (facts.structured_delegate.empty()) continue;
    if (const auto delegate = index_->find_op(facts.structured_delegate))
      add(index_->facts_of(*delegate));
  }
  return kernels;
}

std::optional<std::string> KnownNames::op_bound_by(std::string_view binding) const {
  const std::string function = qualified_name(binding);
  const std::string_view name = bound_name(function);
  if (name.empty()) return std::nullopt;
  std::string op = fmt::format("aten::{}", name);
  return observability_of_ops(op) == Observability::none ? std::nullopt
                                                         : std::optional(std::move(op));
}

std::string KnownNames::why_unobservable(std::string_view asked, const PythonName& name,
                                         const Locator& locator) const {
  if (name.kind == PythonKind::class_) return why_unseen(name.name, locator);
  if (name.kind != PythonKind::function) return {};
  if (is_made_by_call(name))
    return fmt::format(
        "it is created by the call in line {} of {}, and its frames have another name",
        name.location.line, name.location.file);
  return why_inherited(asked, name.name, locator);
}

bool KnownNames::is_made_by_call(const PythonName& function) const {
  for (const Trace& trace : traces_) {
    const std::string& folder = trace.meta.torch_folder;
    if (folder.empty()) continue;
    std::ifstream source =
        open_source(std::filesystem::path(folder).parent_path() / function.location.file);
    std::string line;
    for (std::uint32_t i = 0; i < function.location.line && source; ++i) std::getline(source, line);
    return source && line.find("def ") == std::string::npos;
  }
  return false;
}

std::string KnownNames::why_unseen(std::string_view type, const Locator& locator) const {
  const std::string prefix = std::string(type) + ".";
  if (std::ranges::none_of(python_names(), [&](const PythonName& name) {
        return name.kind == PythonKind::function && name.name.starts_with(prefix);
      }))
    return fmt::format("{} has no Python code of its own", type);
  if (index_->find_python_name(prefix + "forward")) return {};
  for (const PythonName& inherited : locator.python_names(prefix + "forward"))
    return fmt::format("{} inherits its forward() from {}", type, inherited.name);
  return {};
}

std::string KnownNames::why_inherited(std::string_view asked, std::string_view found,
                                      const Locator& locator) const {
  const std::string_view owner = asked.substr(0, asked.rfind('.'));
  if (owner.size() == asked.size()) return {};
  for (const PythonName& type : locator.python_names(owner)) {
    const std::string own = std::string(type.name) + std::string(asked.substr(owner.size()));
    if (type.kind == PythonKind::class_ && !found.starts_with(std::string(type.name) + ".") &&
        !index_->find_python_name(own) && !index_->find_python_name(asked))
      return fmt::format(
          "it is inherited from another class than {}, and frames of {} don't show the class of "
          "the object",
          type.name, found);
  }
  return {};
}

bool KnownNames::any_matches(std::string_view pattern) const {
  return observability_of(targets_of(pattern)) != Observability::none;
}

Observability KnownNames::observability_of(const NameTargets& targets) const {
  if (!targets.why_unobservable.empty()) return Observability::unrecorded;
  const Observability python = counts_python() ? Observability::recorded : Observability::led;
  Observability best = targets.classes.empty() ? Observability::none : python;
  for (const std::string& pattern : targets.patterns)
    best = std::max(best, observability_of_pattern(pattern));
  return best;
}

Observability KnownNames::observability_of_pattern(std::string_view pattern) const {
  const auto [known, is_new] = known_.try_emplace(std::string(pattern), Observability::none);
  if (is_new) known->second = find_observability(pattern);
  return known->second;
}

Observability KnownNames::find_observability(std::string_view pattern) const {
  Observability best = observability_of_ops(pattern);
  for (const auto& more :
       {&KnownNames::observability_of_python, &KnownNames::observability_of_functions})
    if (best != Observability::recorded) best = std::max(best, (this->*more)(pattern));
  return best;
}

Observability KnownNames::observability_of_ops(std::string_view pattern) const {
  for (const Trace& trace : traces_)
    for (const auto& [step, name] : trace.meta.op_names)
      if (names_op(pattern, name)) return Observability::recorded;
  if (index_ == nullptr) return Observability::none;
  for (const OpEntry& op : ops())
    if (names_op(pattern, op.name)) return Observability::recorded;
  // Ops that are in no yaml file: those of TORCH_LIBRARY.
  for (const Registration& registration : registrations())
    if (registration.name.find("::") != std::string_view::npos &&
        names_op(pattern, registration.name))
      return Observability::by_record;
  return Observability::none;
}

Observability KnownNames::observability_of_python(std::string_view pattern) const {
  const Observability function_is = counts_python() ? Observability::recorded : Observability::led;
  for (const Trace& trace : traces_)
    for (const PythonFunction& function : trace.python_functions)
      if (matches_glob(function.name, pattern))
        return function.file.empty() ? Observability::recorded : function_is;
  const auto matches = [&](const auto& one) { return matches_glob(one.first, pattern); };
  if ((reported_ && std::ranges::any_of(*reported_, matches)) || is_defined_by_program(pattern))
    return function_is;
  Observability best = Observability::none;
  if (index_ == nullptr) return best;
  for (const PythonName& name : python_names()) {
    if (!matches_glob(name.name, pattern)) continue;
    if (name.kind == PythonKind::function) return function_is;
    // Functions bound in C++ are recorded through their binding, if that has a probe.
    const bool seen = name.kind == PythonKind::builtin && is_probed(name.target);
    best = std::max(best, !seen                      ? Observability::unrecorded
                          : op_bound_by(name.target) ? Observability::recorded
                                                     : Observability::hidden);
  }
  return best;
}

Observability KnownNames::observability_of_functions(std::string_view wanted) const {
  const std::string exact = statically_known(wanted);
  const std::string pattern = with_one_capability(exact);
  const std::vector<std::string_view> words = identifiers_in(pattern);
  // The functions of a library are not all known, but the library is.
  if (pattern.find('*') != std::string::npos && !library_of(pattern).empty())
    return Observability::recorded;
  if (const std::string fortran = fortran_name(pattern); !fortran.empty() && is_probed(fortran))
    return Observability::recorded;
  Observability best = Observability::none;
  for (const Trace& trace : traces_)
    for (const TraceFunction& function : trace.functions)
      if (names_symbol(exact, words, function.symbol))
        best = std::max(best, !function.probed                ? Observability::walked
                              : is_in_header(function.symbol) ? Observability::inlined
                                                              : Observability::recorded);
  if (best == Observability::recorded) return best;
  if (is_library_function(pattern) && is_probed(pattern)) return Observability::recorded;
  if (index_ == nullptr || words.empty()) return best;
  return std::max(best, observability_of_indexed(exact, pattern, words));
}

Observability KnownNames::observability_of_indexed(
    const std::string& exact, const std::string& pattern,
    const std::vector<std::string_view>& words) const {
  const std::string_view longest = *std::ranges::max_element(words, {}, &std::string_view::size);
  Observability best = Observability::none;
  index_->each_symbol_with(longest, [&](std::string_view symbol) {
    if (symbol.find('#') != std::string_view::npos || !names_symbol(pattern, words, symbol))
      return true;
    best = std::max(best, observability_of_symbol(symbol));
    return best != Observability::recorded;
  });
  // A function that was inlined into its callers has no symbol, and so no probe.
  const auto has_probe = [&](std::string_view symbol) {
    return names_symbol(exact, words, symbol) && is_probed(symbol);
  };
  // A function of a library may be called by no source of PyTorch, and so not be in the index.
  const bool of_library = !library_of(pattern).empty();
  if (of_library ? best != Observability::none : best <= Observability::unrecorded) return best;
  for (const Trace& trace : traces_) {
    const std::string& folder = trace.meta.torch_folder;
    if (folder.empty() || names_device_kernel(pattern, words)) continue;
    const WheelSymbols wheel(std::filesystem::path(folder) / "lib");
    const bool is_in_wheel = wheel.any_with(longest, has_probe);
    if (of_library && is_in_wheel) return Observability::recorded;
    if (!of_library && !is_in_wheel) return Observability::absent;
  }
  return best;
}

Observability KnownNames::observability_of_symbol(std::string_view symbol) const {
  const auto definition = index_->find_definition(symbol);
  const auto kind = definition ? definition->kind : DefinitionKind::function;
  if (kind == DefinitionKind::device_kernel) return Observability::recorded;
  const std::string name = qualified_name(symbol);
  // C++ overloads in a library's header have the name of the library's C function.
  if (kind != DefinitionKind::function || (!is_probed(symbol) && !is_probed(name)))
    return Observability::unrecorded;
  if (definition && is_header(definition->location.file)) return Observability::inlined;
  return classify(name, "").visibility == Visibility::always ? Observability::recorded
                                                             : Observability::hidden;
}

bool KnownNames::is_in_header(std::string_view symbol) const {
  if (index_ == nullptr) return false;
  const auto definition = index_->find_definition(canonical_symbol(symbol));
  return definition && definition->kind == DefinitionKind::function &&
         is_header(definition->location.file);
}

bool KnownNames::names_device_kernel(std::string_view pattern,
                                     const std::vector<std::string_view>& words) const {
  bool found = false;
  index_->each_symbol_with(
      *std::ranges::max_element(words, {}, &std::string_view::size), [&](std::string_view symbol) {
        if (symbol.find('#') != std::string_view::npos || !names_symbol(pattern, words, symbol))
          return true;
        const auto definition = index_->find_definition(symbol);
        found = definition && definition->kind == DefinitionKind::device_kernel;
        return !found;
      });
  return found;
}

RecordedCalls KnownNames::recorded_calls(const NameTargets& targets) const {
  RecordedCalls calls;
  for (const Trace& trace : traces_) add_recorded_calls(trace, targets, calls);
  return calls;
}

bool KnownNames::counts_python() const {
  return (reported_ || !traces_.empty()) && std::ranges::all_of(traces_, [](const Trace& trace) {
           return optrace::counts_python(trace);
         });
}

bool KnownNames::is_class_of_trace(std::string_view name) const {
  const std::string class_scope = fmt::format("{}.", name);
  const auto is_called_by = [&](std::string_view function) {
    return function.starts_with(class_scope) &&
           std::ranges::find(kCalledMethods, function.substr(class_scope.size())) !=
               kCalledMethods.end();
  };
  if (reported_ && std::ranges::any_of(std::views::keys(*reported_), is_called_by)) return true;
  return std::ranges::any_of(traces_, [&](const Trace& trace) {
    return std::ranges::any_of(trace.python_functions, is_called_by, &PythonFunction::name);
  });
}

const std::vector<std::string>& KnownNames::definitions_in(const std::string& file) const {
  const auto [known, is_new] = definitions_.try_emplace(file);
  if (is_new) {
    std::ifstream source = open_source(file);
    std::string text{std::istreambuf_iterator<char>(source), {}};
    known->second = PythonSource(std::move(text)).definitions();
  }
  return known->second;
}

bool KnownNames::defines_calls(const PythonFunction& type) const {
  return std::ranges::any_of(kCalledMethods, [&](std::string_view method) {
    const std::string name = fmt::format(".{}.{}", type.name, method);
    return std::ranges::any_of(definitions_in(type.file), [&](const std::string& defined) {
      return name.ends_with("." + defined);
    });
  });
}

bool KnownNames::is_defined_by_program(std::string_view pattern) const {
  constexpr std::string_view kModule = "<module>";
  for (const Trace& trace : traces_)
    for (const PythonFunction& function : trace.python_functions) {
      if (!function.name.ends_with(kModule)) continue;
      const std::string holder = function.name.substr(0, function.name.size() - kModule.size());
      if (!holder.empty() && pattern.starts_with(holder) &&
          std::ranges::any_of(definitions_in(function.file), [&](const std::string& defined) {
            return matches_glob(holder + defined, pattern);
          }))
        return true;
    }
  return false;
}

bool KnownNames::hides_calls(std::string_view name) const {
  if (!counts_python() || is_class_of_trace(name)) return false;
  for (const Trace& trace : traces_)
    for (const PythonFunction& function : trace.python_functions)
      if (function.name == name && !function.file.empty()) return !defines_calls(function);
  return false;
}

std::vector<std::string> KnownNames::near(std::string_view wanted, std::size_t limit) const {
  if (index_ == nullptr) return {};
  std::string pattern = statically_known(wanted);
  std::erase(pattern, '*');
  if (library_of(pattern).empty()) {
    // An invalid name has no similar names.
    try {
      const LocateResult located = locator().locate(pattern, {.limit = limit});
      std::vector<std::string> names = located.suggestions;
      for (const Located& answer : located.answers) names.push_back(answer.name);
      std::erase(names, wanted);
      if (names.size() > limit) names.resize(limit);
      return names;
    } catch (const Error&) {
      return {};
    }
  }
  // Suggest functions of the same library that PyTorch calls.
  constexpr std::size_t kPrefix = 4;  // `cudn`, `cubl`, `nccl`.
  std::set<std::string> called;
  index_->each_symbol_with(pattern.substr(0, kPrefix), [&](std::string_view symbol) {
    std::string name = qualified_name(symbol);
    if (library_of(name) == library_of(pattern)) called.insert(std::move(name));
    return true;
  });
  return near_names(pattern, {called.begin(), called.end()}, limit);
}

}  // namespace optrace
