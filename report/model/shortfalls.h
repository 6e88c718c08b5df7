#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/model/report_reader.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The part of a trace that a shortfall affects.
enum class ShortfallEffect : std::uint8_t {
  calls,     ///< Whole calls are missing, with all frames below them.
  frames,    ///< Any frame may be missing, also inside of recorded calls.
  python,    ///< Python functions may be missing.
  records,   ///< Data of op records is missing: arguments, and ops that are called boxed.
  device,    ///< Device activity is missing.
  places,    ///< All calls are counted, but some in the wrong place.
  callers,   ///< All calls are counted, but a few are slightly misplaced.
  timeline,  ///< Only the timeline is affected.
  details,   ///< Some frames lack details that no rule is about.
};

/// Describes a kind of shortfall. All kinds are in one table, in shortfalls.cpp.
struct ShortfallKind {
  std::string_view kind;
  ShortfallEffect effect = ShortfallEffect::frames;
  std::string_view sentence;  ///< `{} events were lost while recording`: {} is the count.
  std::string_view remedy;
  /// Warning for the report's header; empty if the trace already has a warning of its own.
  std::string_view warning;
};

/// For a kind that is not in the table, written by a newer optrace, any frame may be missing.
const ShortfallKind& kind_of(const Shortfall& shortfall);

/// Returns the sentence with its count filled in.
std::string sentence_of(const Shortfall& shortfall);

/// Returns all shortfalls of the trace: those that it records (TraceMeta::shortfalls), and those
/// that follow from its contents. Sorted in the order of the table.
std::vector<Shortfall> shortfalls_of(const Trace& trace);

/// Adds to the entry of the same kind, so that each kind occurs once.
void add_shortfall(std::vector<Shortfall>& shortfalls, const Shortfall& more);

/// Returns the warnings for a report's header, one sentence for each kind that has one.
std::vector<std::string> shortfall_warnings(const std::vector<Shortfall>& shortfalls);

/// Returns true if one of these can hide differences, so that a comparison without differences is
/// not conclusive.
bool may_hide_differences(const std::vector<Shortfall>& shortfalls);

}  // namespace optrace
