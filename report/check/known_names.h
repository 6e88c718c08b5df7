#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

class Locator;

/// What a rule's name stands for among what a report can hold.
struct NameMeaning {
  /// A function bound in C++, as a frame has it that no call of Python's led to: `x + y`.
  struct Binding {
    std::string symbol;  ///< Canonical.
    std::string file;    ///< Of its definition; empty if unknown.
  };
  /// Of functions and ops, in which `*` stands for any characters: the name as it was given, and
  /// those under which the same is defined.
  std::vector<std::string> patterns;
  std::vector<std::string> classes;  ///< Of Python: the frames of their methods stand for them.
  std::vector<Binding> bindings;
  std::string why_untold;  ///< Why no frame can stand for the name by itself; empty if one can.

  /// Whether a frame is a call of it. A method that another one of its class calls is none of the
  /// class: `inside` is the Python function that is the innermost above the frame, or empty.
  bool names(const Frame& frame, std::string_view inside) const;
  /// Whether it is a function, an op, a method of a class, or a binding, by their names alone.
  bool names(std::string_view function) const;
  bool names_operator(std::string_view op) const;
  bool names_method(std::string_view function, std::string_view inside) const;
  bool names_binding(std::string_view symbol, std::string_view file) const;
};

/// What is known of a name.
enum class Knowledge : std::uint8_t {
  none,        ///< Nothing has it.
  unrecorded,  ///< Something has it, but no trace has calls of that.
  by_record,   ///< An op that only op records tell of.
  unshown,     ///< Its calls are in traces; reports leave them out unless all is asked for.
  recorded,    ///< Its calls are in traces and in reports.
};

/// What names there are, so that a rule about one that nobody ever had can be told from one that
/// was not met: functions and ops of the trace's tables and of the index, entry points of CUDA's
/// and the CPU's libraries.
class KnownNames {
 public:
  /// `index` may be null. They must outlive the object.
  KnownNames(std::span<const Trace> traces, const Index* index);
  ~KnownNames();

  /// Whether anything that could be called matches, in which `*` stands for any characters. Which
  /// instances there are of a template nobody knows, so `f<double>*` is known if `f` is.
  bool any_matches(std::string_view pattern) const;

  /// What a rule's name stands for: what it is an alias of, how ops are spelled in Python.
  NameMeaning meaning_of(std::string_view pattern) const;

  /// The ops that a name stands for: its own, and those that the binding of it is named after.
  NameMeaning ops_meant_by(std::string_view pattern) const;

  /// Whether calls of what a name stands for could be in a report.
  Knowledge knowledge_of(const NameMeaning& meaning) const;

  /// How often the traces have calls of it, those that a report leaves out included.
  std::uint64_t recorded_calls(const NameMeaning& meaning) const;

  /// Whether the traces themselves are at hand, and not only a report of them.
  bool has_traces() const { return !traces_.empty(); }

  /// At most `limit` names that were meant by a pattern that nothing matches, likeliest first.
  std::vector<std::string> near(std::string_view pattern, std::size_t limit) const;

  /// Whether there is an index, which knows what was not called, too.
  bool complete() const { return index_ != nullptr; }

 private:
  void add_python_names(std::string_view pattern, NameMeaning& meaning) const;
  void add_matching_python_names(std::string_view pattern, NameMeaning& meaning) const;
  static void add_python_name(const PythonName& name, NameMeaning& meaning);
  std::string why_untold(std::string_view asked, const PythonName& name,
                         const Locator& locator) const;
  bool is_made_by_call(const PythonName& function) const;
  std::string why_unseen(std::string_view type, const Locator& locator) const;
  std::string why_inherited(std::string_view asked, std::string_view found,
                            const Locator& locator) const;
  std::optional<std::string> op_bound_by(std::string_view binding) const;
  Knowledge knowledge_of_pattern(std::string_view pattern) const;
  Knowledge knowledge_of_ops(std::string_view pattern) const;
  Knowledge knowledge_of_python(std::string_view pattern) const;
  Knowledge knowledge_of_functions(std::string_view wanted) const;
  Knowledge knowledge_of_symbol(std::string_view symbol) const;
  bool names_device_kernel(std::string_view pattern,
                           const std::vector<std::string_view>& words) const;

  Locator& locator() const;
  const std::vector<PythonName>& python_names() const;
  const std::vector<OpEntry>& ops() const;
  const std::vector<Registration>& registrations() const;
  Knowledge find_knowledge(std::string_view pattern) const;

  std::span<const Trace> traces_;
  const Index* index_;
  // What is found out once for all names.
  mutable std::unique_ptr<Locator> locator_;
  mutable std::optional<std::vector<PythonName>> python_names_;
  mutable std::optional<std::vector<OpEntry>> ops_;
  mutable std::optional<std::vector<Registration>> registrations_;
  mutable std::map<std::string, Knowledge, std::less<>> known_;  // Of patterns.
};

/// Whether a pattern names a function, by its qualified name with or without template arguments, or
/// as the text of reports has it (short_name()), or an op (`aten::add`, `aten::add.Tensor`, `add`).
bool names_function(std::string_view pattern, std::string_view qualified_name);
bool names_op(std::string_view pattern, std::string_view op);

}  // namespace optrace
