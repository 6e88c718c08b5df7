#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "report/check/names/name_targets.h"
#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

class Locator;
struct RecordedCalls;

/// Describes if and where calls of a name can be found. Of several functions, the one that is known
/// best counts.
enum class Observability : std::uint8_t {
  none,        ///< The name is unknown.
  absent,      ///< PyTorch's source has it, but no library of the traced torch.
  unrecorded,  ///< The name is known, but traces don't record its calls.
  by_record,   ///< An op whose calls only op records show.
  walked,      ///< A function without a probe: counted where the stack was walked.
  led,         ///< A Python function: counted where it led to something that is recorded.
  inlined,     ///< A function of a header: counted where it was not compiled into its caller.
  hidden,      ///< Its calls are in traces; reports leave them out unless everything is requested.
  recorded,    ///< Its calls are in traces and in reports.
};

/// All known names: functions and ops of the trace's tables and of the index, and entry points of
/// CUDA's and the CPU's libraries. Distinguishes a rule about a name that doesn't exist from one
/// about a name that was not called.
class KnownNames {
 public:
  /// `index` may be null. `reported` are the Python functions of a report without traces, if their
  /// calls were counted. The arguments must outlive the object.
  KnownNames(std::span<const Trace> traces, const Index* index,
             const std::optional<CallsByName>& reported = kNoneReported);
  ~KnownNames();

  /// Returns true if the pattern, in which `*` matches any characters, matches anything that can be
  /// called. Template instances are not listed anywhere, so `f<double>*` is known if `f` is.
  bool any_matches(std::string_view pattern) const;

  /// Returns the targets of a rule's name, resolving aliases and Python's spelling of ops.
  NameTargets targets_of(std::string_view pattern) const;

  /// Returns the ops that a name stands for: those with that name, and those after which its
  /// binding is named.
  NameTargets target_ops(std::string_view pattern) const;

  /// Returns how calls of targets can be found.
  Observability observability_of(const NameTargets& targets) const;

  /// Returns the functions that native_functions.yaml names as kernels of the ops that match: their
  /// qualified names. None without an index.
  std::set<std::string> kernels_of(const NameTargets& ops) const;

  RecordedCalls recorded_calls(const NameTargets& targets) const;

  /// Returns true if each call of a Python function was counted, whatever it led to.
  bool counts_python() const;

  /// Returns true for a class of the program that inherits its constructor and its forward(), which
  /// are recorded by the names of other classes.
  bool hides_calls(std::string_view name) const;

  /// Returns true if the traces themselves are available, not only a report of them.
  bool has_traces() const { return !traces_.empty(); }
  std::span<const Trace> traces() const { return traces_; }

  /// Returns at most `limit` likely corrections of a pattern that nothing matches, the likeliest
  /// first.
  std::vector<std::string> near(std::string_view pattern, std::size_t limit) const;

  /// Returns true if there is an index, which also contains names that were not called.
  bool complete() const { return index_ != nullptr; }

 private:
  /// Returns why there are no calls of a C++ name that are the program's; empty for other names.
  std::string why_no_call(std::string_view pattern) const;
  void add_python_names(std::string_view pattern, NameTargets& targets) const;
  void add_matching_python_names(std::string_view pattern, NameTargets& targets) const;
  static void add_python_name(const PythonName& name, NameTargets& targets);
  std::string why_unobservable(std::string_view asked, const PythonName& name,
                               const Locator& locator) const;
  bool is_made_by_call(const PythonName& function) const;
  std::string why_unseen(std::string_view type, const Locator& locator) const;
  std::string why_inherited(std::string_view asked, std::string_view found,
                            const Locator& locator) const;
  std::optional<std::string> op_bound_by(std::string_view binding) const;
  Observability observability_of_pattern(std::string_view pattern) const;
  Observability observability_of_ops(std::string_view pattern) const;
  Observability observability_of_python(std::string_view pattern) const;
  Observability observability_of_functions(std::string_view wanted) const;
  Observability observability_of_indexed(const std::string& exact, const std::string& pattern,
                                         const std::vector<std::string_view>& words) const;
  Observability observability_of_symbol(std::string_view symbol) const;
  bool is_class_of_trace(std::string_view name) const;
  /// Returns the names of what a Python file defines, without that of the module.
  const std::vector<std::string>& definitions_in(const std::string& file) const;
  /// Returns true if the body of a class has one of the methods by which classes are called.
  bool defines_calls(const PythonFunction& type) const;
  /// Returns true if a module that the program ran has a definition of that name.
  bool is_defined_by_program(std::string_view pattern) const;
  bool is_in_header(std::string_view symbol) const;
  bool names_device_kernel(std::string_view pattern,
                           const std::vector<std::string_view>& words) const;

  Locator& locator() const;
  const std::vector<PythonName>& python_names() const;
  const std::vector<OpEntry>& ops() const;
  const std::vector<Registration>& registrations() const;
  Observability find_observability(std::string_view pattern) const;

  static const std::optional<CallsByName> kNoneReported;

  std::span<const Trace> traces_;
  const Index* index_;
  const std::optional<CallsByName>& reported_;
  // Caches, filled on first use.
  mutable std::unique_ptr<Locator> locator_;
  mutable std::optional<std::vector<PythonName>> python_names_;
  mutable std::optional<std::vector<OpEntry>> ops_;
  mutable std::optional<std::vector<Registration>> registrations_;
  mutable std::map<std::string, Observability, std::less<>> known_;      // By pattern.
  mutable std::map<std::string, std::vector<std::string>> definitions_;  // By file.
};

}  // namespace optrace
