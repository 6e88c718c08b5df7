#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "indexer/store/source_link.h"
#include "lookup/explain/explain.h"

namespace optrace {

/// Writes the source of an answer, and places in it, as JSON.
class SourceJson {
 public:
  /// `source` must outlive the object.
  explicit SourceJson(const ExplanationSource& source)
      : source_(source), link_(source.git_version, source.version) {}

  /// Adds the keys `torch` and `source`.
  void add_to(nlohmann::ordered_json& answer) const;

  /// Returns null without a file.
  nlohmann::ordered_json place(const SourceLocation& location) const;

  /// Returns a place of which only the line can be unknown; null if it is.
  nlohmann::ordered_json place_of_line(std::string_view file, std::uint32_t line,
                                       const std::optional<LineInterval>& approximate = {}) const;

 private:
  const ExplanationSource& source_;
  SourceLink link_;
};

}  // namespace optrace
