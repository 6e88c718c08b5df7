#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "platform/files/output_sink.h"

namespace optrace {

/// The name of a format: a value of --format.
struct FormatName {
  std::string_view name;
  std::string_view help{};  ///< What it is; empty if the name says it.
  bool is_binary = false;   ///< It is for other programs than a terminal: a database, a page.
};

/// A format of an answer. `write` writes an answer in it.
template <class Answer, class Options>
struct Format : FormatName {
  void (*write)(const Answer& answer, const Options& options, OutputSink& sink);
};

/// Returns the names of a table of formats, in its order.
template <class Formats>
std::vector<FormatName> names_of(const Formats& formats) {
  return {formats.begin(), formats.end()};
}

/// Returns the format with a name, which must be in the table.
template <class Formats>
const auto& format_named(const Formats& formats, std::string_view name) {
  return *std::ranges::find(formats, name, &FormatName::name);
}

/// Returns the names as a list for the help, `text, csv (the ops) or json (a report)`. Neighbours
/// with the same help share it: `folded or speedscope (flame graphs)`.
std::string list_of(const std::vector<FormatName>& formats);

}  // namespace optrace
