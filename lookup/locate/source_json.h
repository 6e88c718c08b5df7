#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "indexer/store/indexed_source.h"
#include "platform/text/json_stream.h"

namespace optrace {

/// Adds the fields of a line of an index: `line`, null if it is 0; `exact`, null without a line;
/// and `interval`, if the line is approximate and its bounds are known.
void add_line(JsonStream& json, std::uint32_t line, const std::optional<LineInterval>& approximate,
              const IndexMatch& match);

/// Adds the fields that describe an index: `made_from`, `of_torch`, `exact`.
void add_match(JsonStream& json, const IndexMatch& match);

/// Writes the source of an answer, and places in it, as JSON.
class SourceJson {
 public:
  /// Both must outlive the object.
  SourceJson(JsonStream& json, const IndexedSource& source)
      : json_(json), source_(source), link_(source.git_version, source.version) {}

  /// Adds the fields `torch` and `source`.
  void add_source() const;

  /// Adds a field with a place; with null without a file.
  void add_place(std::string_view name, const SourceLocation& location) const;

  /// Adds a field with a place of which only the line can be unknown; with null if it is.
  void add_place_of_line(std::string_view name, std::string_view file, std::uint32_t line,
                         const std::optional<LineInterval>& approximate = {}) const;

 private:
  JsonStream& json_;
  const IndexedSource& source_;
  SourceLink link_;
};

}  // namespace optrace
