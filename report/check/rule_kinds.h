#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/check/check.h"
#include "report/check/check_rules.h"
#include "report/check/names/known_names.h"
#include "report/check/occurrences.h"
#include "report/check/rule_sentence.h"
#include "report/check/uncertainty.h"
#include "report/compiled/graph_breaks.h"
#include "report/findings/findings.h"
#include "report/model/report.h"

namespace optrace {

/// The op calls of a report whose arguments are known or missing.
struct RecordedArguments {
  bool any = false;  ///< At least one op has a record.
  std::uint64_t left_out = 0;
  std::uint64_t left_out_copies = 0;  ///< Those of ops that may copy to another device.
};

/// What all rules of one check know of the report and of names.
class CheckContext {
 public:
  /// The arguments must outlive the object.
  CheckContext(const Report& report, const KnownNames& names, const CheckOptions& options);

  const Report& report() const { return report_; }
  const KnownNames& names() const { return names_; }
  const CheckOptions& options() const { return options_; }
  const GraphBreaks& graph_breaks() const { return graph_breaks_; }
  /// What the frames visited so far have.
  const RecordedArguments& arguments() const { return arguments_; }
  /// The findings of all rules, made on first use.
  const std::vector<Finding>& findings() const;
  /// Returns a few names that are similar to an unknown one. Searching for them is slow: with many
  /// unknown names, all rules are likely wrong, and only the first names have any.
  std::vector<std::string> similar_names(std::string_view unknown) const;

  void visit(const Frame& frame);

 private:
  const Report& report_;
  const KnownNames& names_;
  const CheckOptions& options_;
  GraphBreaks graph_breaks_;
  RecordedArguments arguments_;
  mutable std::optional<std::vector<Finding>> findings_;
  mutable std::size_t corrected_ = 0;  // Unknown names for which similar ones were looked up.
};

/// Why a rule can't be decided, and what to do.
struct Undecidable {
  std::string why;
  std::string remedy;
};

/// What a report says about a rule.
struct Verdict {
  bool holds = false;
  std::string found{};  ///< Such as "called 3 times"; empty if nothing could be counted.
  std::optional<Undecidable> undecidable = std::nullopt;
};

/// Counts what one rule is about.
class RuleCounter {
 public:
  RuleCounter() = default;
  RuleCounter(const RuleCounter&) = delete;
  RuleCounter& operator=(const RuleCounter&) = delete;
  virtual ~RuleCounter() = default;

  /// Visits a frame of the report. Each is visited once, after the frame above it.
  virtual void visit(const PathToFrame& path) = 0;
  /// Returns the verdict after all visits.
  virtual Verdict judge() const = 0;
  /// Returns what the count depends on.
  virtual Sensitivity sensitivity() const = 0;
  /// Returns true if an uncertainty of the count could change the verdict. `holds` is
  /// Verdict::holds.
  virtual bool may_change_verdict(const Uncertainty& uncertainty, bool holds) const = 0;

  const Occurrences& occurrences() const { return occurrences_; }

 protected:
  Occurrences& occurrences() { return occurrences_; }

 private:
  Occurrences occurrences_;
};

/// A kind of rule: its file has both functions, rule_kinds.cpp its row, docs/check-format.md its
/// description.
struct RuleKind {
  std::string_view form;  ///< Its sentence: `OP uses BACKEND`.
  /// Returns the rule that a sentence is; nothing if the sentence has another form. Throws
  /// Error(usage) if a sentence of this form is wrong. Kind, text and name of the rule are not set.
  std::optional<Rule> (*parse)(const RuleSentence& sentence);
  /// Starts to count. The arguments must outlive the counter.
  std::unique_ptr<RuleCounter> (*start)(const Rule& rule, const CheckContext& context);
};

/// Returns all kinds of rules, in the order in which a sentence is tried.
std::span<const RuleKind> rule_kinds();

}  // namespace optrace
