#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "report/model/report_file.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// What of a trace something that it lacks can change.
enum class ShortfallEffect : std::uint8_t {
  calls,     ///< Whole calls are missing, with all that they led to.
  frames,    ///< Anything may be missing, also inside of calls that are there.
  python,    ///< Python functions may be missing.
  records,   ///< What only op records tell of is missing: ops that are called boxed, arguments.
  device,    ///< What devices did is missing.
  places,    ///< All calls are counted, but some not where they belong.
  callers,   ///< Likewise, but for few calls that are near where they belong.
  timeline,  ///< Nothing that a report shows.
};

/// What a kind of shortfall means. All kinds are in one table, in shortfalls.cpp.
struct ShortfallKind {
  std::string_view kind;
  ShortfallEffect effect = ShortfallEffect::frames;
  std::string_view sentence;  ///< `{} events were lost while recording`: {} is the count.
  std::string_view remedy;
  /// What the report's header says of it; empty where the trace's own warnings say it.
  std::string_view warning;
};

/// Of a kind that is not in the table, which a newer optrace wrote, everything may be missing.
const ShortfallKind& kind_of(const Shortfall& shortfall);

/// The sentence with its count.
std::string sentence_of(const Shortfall& shortfall);

/// All that the trace lacks: what it says itself (note_shortfall()), and what follows from it. In
/// the order of the table.
std::vector<Shortfall> shortfalls_of(const Trace& trace);

/// Counts one more; of each kind there is one.
void add_shortfall(std::vector<Shortfall>& shortfalls, const Shortfall& more);

/// For the header of a report: a sentence for each that nothing else says.
std::vector<std::string> shortfall_warnings(const std::vector<Shortfall>& shortfalls);

/// Whether a comparison that finds nothing says nothing, because of one of these.
bool may_hide_differences(const std::vector<Shortfall>& shortfalls);

/// A list of {"kind", "count", "what"}.
nlohmann::json shortfalls_json(const std::vector<Shortfall>& shortfalls);

}  // namespace optrace
