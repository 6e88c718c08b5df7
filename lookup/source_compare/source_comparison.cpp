#include "lookup/source_compare/source_comparison.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "platform/text/glob.h"
#include "platform/text/joined.h"
#include "pytorch/names/name_patterns.h"
#include "pytorch/source/source_files.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Modules of Python functions that decompose ops or define them by other ops.
constexpr auto kDecompositions = std::to_array<std::string_view>(
    {"torch._decomp.decompositions.", "torch._refs.", "torch._meta_registrations."});

// The key of an op's registrations of which the other values are by dispatch key.
constexpr std::string_view kCatchAll = "CatchAll";
constexpr std::string_view kAllNamespaces = "_";

// A text for each key.
using Values = std::map<std::string, std::string>;

// Returns the text without line breaks and repeated spaces.
std::string on_one_line(std::string_view text) {
  std::string line;
  for (const char character : text) {
    const bool space = character == ' ' || character == '\n' || character == '\t';
    if (space && (line.empty() || line.back() == ' ')) continue;
    line += space ? ' ' : character;
  }
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

// Everything that a version has about one op.
struct Op {
  std::optional<OpEntry> entry;  // Of native_functions.yaml.
  std::vector<Registration> registrations;
};

// The ops of an index, and its fallbacks.
class Ops {
 public:
  explicit Ops(const Index& index) : index_(index) {
    for (const OpEntry& entry : index.ops()) ops_[entry.name].entry = entry;
    for (const Registration& one : index.registrations()) {
      if (one.kind == RegistrationKind::stub) continue;
      if (!is_generated_source(one.location.file)) has_written_ = true;
      if (one.kind == RegistrationKind::fallback || one.name.find("::") == std::string_view::npos) {
        if (one.name == kAllNamespaces) fallbacks_.push_back(one);
        continue;
      }
      if (one.kind == RegistrationKind::definition) declared_.insert(one.name);
      ops_[one.name].registrations.push_back(one);
    }
  }

  const Index& index() const { return index_; }
  /// True if some registrations are in code that PyTorch's build doesn't generate.
  bool has_written_registrations() const { return has_written_; }

  /// Returns null for an op that is not declared: a registration for it has no effect.
  const Op* find(std::string_view name) const {
    const auto found = ops_.find(name);
    return found != ops_.end() && (found->second.entry || declared_.contains(name)) ? &found->second
                                                                                    : nullptr;
  }
  std::vector<std::string_view> names() const {
    std::vector<std::string_view> names;
    for (const auto& [name, op] : ops_)
      if (find(name) != nullptr) names.push_back(name);
    return names;
  }
  const std::vector<Registration>& fallbacks() const { return fallbacks_; }

 private:
  const Index& index_;
  std::map<std::string_view, Op> ops_;
  std::set<std::string_view> declared_;
  std::vector<Registration> fallbacks_;
  bool has_written_ = false;
};

// The registrations that both indexes would have.
enum class Comparable : std::uint8_t { all, generated, none };

// Returns the functions that are registered for each dispatch key.
Values registered(const std::vector<Registration>& registrations, Comparable comparable) {
  std::map<std::string, std::set<std::string>> functions;
  for (const Registration& one : registrations) {
    if (comparable == Comparable::none) break;
    if (comparable == Comparable::generated && !is_generated_source(one.location.file)) continue;
    if (one.kind == RegistrationKind::definition && one.function.empty()) continue;
    const std::string_view key = one.key.empty() ? kCatchAll : one.key;
    functions[std::string(key)].insert(one.kind == RegistrationKind::fallthrough ? "fallthrough"
                                       : one.function.empty() ? "a function without a name"
                                                              : qualified_name(one.function));
  }
  Values values;
  for (const auto& [key, names] : functions) values.emplace(key, joined(names, ", "));
  return values;
}

Values kernels_of(const OpFacts& facts) {
  Values values;
  for (const OpFacts::Kernel& kernel : facts.kernels)
    values.emplace(kernel.key, kernel.name + (kernel.structured ? " (structured)"
                                              : kernel.ufunc    ? " (ufunc)"
                                                                : ""));
  return values;
}

// Returns the formulas by what they are the gradient of.
Values derivatives_of(const OpFacts& facts, const auto& is_chosen) {
  Values values;
  for (const OpFacts::Derivative& derivative : facts.derivatives) {
    if (!is_chosen(derivative.key)) continue;
    const std::string prefix = derivative.key == "Default" ? "" : derivative.key + ": ";
    for (const OpFacts::Formula& formula : derivative.backward)
      values.emplace(prefix + joined(formula.arguments, ", "), on_one_line(formula.text));
    for (const OpFacts::Formula& formula : derivative.forward)
      values.emplace(prefix + joined(formula.arguments, ", ") + " (forward)",
                     on_one_line(formula.text));
    if (derivative.backward.empty() && derivative.forward.empty())
      values.emplace(prefix + "all", "not differentiable");
  }
  return values;
}

Values properties_of(const OpFacts& facts) {
  Values values;
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) values.emplace(name, std::move(value));
  };
  add("variants", joined(facts.variants, ", "));
  add("tags", joined(facts.tags, ", "));
  add("Python module", facts.python_module);
  add("structured", facts.structured ? "yes" : "");
  add("structured delegate", facts.structured_delegate);
  add("generated from", facts.autogenerated_from);
  return values;
}

// Adds the keys whose values differ.
void add_changes(OpChange::Kind kind, const Values& first, const Values& second,
                 std::vector<OpChange>& changes) {
  const auto value_in = [](const Values& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string() : found->second;
  };
  std::set<std::string> keys;
  for (const Values* values : {&first, &second})
    for (const auto& [key, value] : *values) keys.insert(key);
  for (const std::string& key : keys) {
    OpChange change{kind, key, value_in(first, key), value_in(second, key)};
    if (change.before != change.after) changes.push_back(std::move(change));
  }
}

class SourceComparer {
 public:
  SourceComparer(const Index& first, const Index& second, const SourceComparisonOptions& options)
      : first_(first), second_(second), options_(options) {}

  SourceComparison run() {
    check_contents();
    compare_ops();
    if (options_.ops.empty())
      add_changes(OpChange::Kind::registration, chosen(registered(first_.fallbacks(), comparable_)),
                  chosen(registered(second_.fallbacks(), comparable_)), made_.fallbacks);
    if (options_.keys.empty()) compare_decompositions();
    return std::move(made_);
  }

 private:
  bool is_chosen_key(std::string_view key) const {
    return options_.keys.empty() || std::ranges::any_of(options_.keys, [&](const auto& pattern) {
             return matches_glob(key, pattern);
           });
  }
  bool is_chosen_op(std::string_view name) const {
    return options_.ops.empty() || std::ranges::any_of(options_.ops, [&](const auto& pattern) {
             return names_op(pattern, name);
           });
  }
  Values chosen(Values values) const {
    std::erase_if(values, [&](const auto& value) { return !is_chosen_key(value.first); });
    return values;
  }

  // Records what one of the indexes lacks.
  void check_contents() {
    for (const Ops* ops : {&first_, &second_}) {
      const Index& index = ops->index();
      for (const char* const note : {"partial", "on_demand"})
        if (!index.note(note).empty()) {
          comparable_ = Comparable::none;
          made_.not_compared.push_back(
              fmt::format("{} was made from a part of the source; registrations are not compared",
                          index.path().filename().string()));
        }
    }
    if (comparable_ == Comparable::none) return;
    if (first_.has_written_registrations() == second_.has_written_registrations()) return;
    comparable_ = Comparable::generated;
    const Ops& lacking = first_.has_written_registrations() ? second_ : first_;
    made_.not_compared.push_back(
        fmt::format("{} has only the registrations of generated code; others are not compared",
                    lacking.index().path().filename().string()));
  }

  static ComparedOp described(std::string_view name, const Ops& ops) {
    const Op& op = *ops.find(name);
    ComparedOp made;
    made.name = name;
    SourceLocation location;
    if (op.entry) {
      made.schema = ops.index().facts_of(*op.entry).schema;
      location = op.entry->location;
    }
    // PyTorch's build generates the declarations of the ops in native_functions.yaml.
    for (const Registration& one : op.registrations)
      if (one.kind == RegistrationKind::definition && !is_generated_source(one.location.file))
        location = one.location;
    made.file = location.file;
    made.line = location.line;
    return made;
  }

  std::vector<OpChange> changes_of(const Op& before, const Op& after) const {
    std::vector<OpChange> changes;
    if (before.entry && after.entry) {
      const OpFacts old_facts = first_.index().facts_of(*before.entry);
      const OpFacts facts = second_.index().facts_of(*after.entry);
      if (options_.keys.empty()) {
        if (old_facts.schema != facts.schema)
          changes.push_back({OpChange::Kind::schema, "", old_facts.schema, facts.schema});
        add_changes(OpChange::Kind::property, properties_of(old_facts), properties_of(facts),
                    changes);
      }
      add_changes(OpChange::Kind::kernel, chosen(kernels_of(old_facts)), chosen(kernels_of(facts)),
                  changes);
      const auto is_chosen = [this](std::string_view key) { return is_chosen_key(key); };
      add_changes(OpChange::Kind::derivative, derivatives_of(old_facts, is_chosen),
                  derivatives_of(facts, is_chosen), changes);
    }
    std::set<std::string> by_yaml;  // Their registrations follow from the yaml.
    for (const OpChange& change : changes)
      if (change.kind == OpChange::Kind::kernel) by_yaml.insert(change.key);
    std::vector<OpChange> registrations;
    add_changes(OpChange::Kind::registration, chosen(registered(before.registrations, comparable_)),
                chosen(registered(after.registrations, comparable_)), registrations);
    for (OpChange& change : registrations)
      if (!by_yaml.contains(change.key)) changes.push_back(std::move(change));
    return changes;
  }

  void compare_ops() {
    for (const std::string_view name : first_.names()) {
      if (!is_chosen_op(name)) continue;
      const Op* const after = second_.find(name);
      if (after == nullptr) {
        if (is_comparable(*first_.find(name))) made_.removed.push_back(described(name, first_));
        continue;
      }
      ComparedOp op;
      op.name = name;
      op.changes = changes_of(*first_.find(name), *after);
      if (!op.changes.empty()) made_.changed.push_back(std::move(op));
    }
    for (const std::string_view name : second_.names())
      if (is_chosen_op(name) && first_.find(name) == nullptr && is_comparable(*second_.find(name)))
        made_.added.push_back(described(name, second_));
  }

  // Returns true if the other index would have the op if its version did.
  bool is_comparable(const Op& op) const { return comparable_ == Comparable::all || op.entry; }

  void compare_decompositions() {
    const auto names_in = [&](const Index& index) {
      std::map<std::string_view, PythonName> names;
      for (const PythonName& name : index.python_names())
        if (name.kind == PythonKind::function && is_decomposition(name.name))
          names.emplace(name.name, name);
      return names;
    };
    const auto first = names_in(first_.index());
    const auto second = names_in(second_.index());
    if (first.empty() != second.empty()) {
      const Index& lacking = first.empty() ? first_.index() : second_.index();
      made_.not_compared.push_back(fmt::format("{} has no decompositions; they are not compared",
                                               lacking.path().filename().string()));
      return;
    }
    add_missing(first, second, made_.decompositions_removed);
    add_missing(second, first, made_.decompositions_added);
  }

  void add_missing(const std::map<std::string_view, PythonName>& from,
                   const std::map<std::string_view, PythonName>& other,
                   std::vector<PythonDecomposition>& missing) const {
    for (const auto& [name, python] : from)
      if (!other.contains(name) && is_chosen_op(op_of(name)))
        missing.push_back(
            {std::string(name), std::string(python.location.file), python.location.line});
  }

  // Returns the op that a Python function of that name would decompose.
  static std::string op_of(std::string_view function) {
    return fmt::format("aten::{}", function.substr(function.rfind('.') + 1));
  }

  static bool is_decomposition(std::string_view name) {
    return name.find('<') == std::string_view::npos &&
           std::ranges::any_of(kDecompositions,
                               [&](std::string_view module) { return name.starts_with(module); });
  }

  const Ops first_;
  const Ops second_;
  const SourceComparisonOptions& options_;
  Comparable comparable_ = Comparable::all;
  SourceComparison made_;
};

}  // namespace

std::string_view name_of(OpChange::Kind kind) {
  constexpr std::array<std::string_view, 5> kNames = {"schema", "property", "kernel", "derivative",
                                                      "registration"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::size_t SourceComparison::differences() const {
  return added.size() + removed.size() + changed.size() + fallbacks.size() +
         decompositions_added.size() + decompositions_removed.size();
}

SourceComparison compare_sources(const Index& first, const Index& second,
                                 const SourceComparisonOptions& options) {
  return SourceComparer(first, second, options).run();
}

}  // namespace optrace
