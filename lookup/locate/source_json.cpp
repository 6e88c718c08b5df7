#include "lookup/locate/source_json.h"

#include <array>

namespace optrace {

void add_line(JsonStream& json, std::uint32_t line, const std::optional<LineInterval>& approximate,
              const IndexMatch& match) {
  const bool known = line != 0;
  json.field("line", known ? std::optional(line) : std::nullopt);
  json.field("exact", known ? std::optional(match.is_exact(approximate)) : std::nullopt);
  // The bounds are lines of the index's torch.
  if (known && match.of_torch && approximate && approximate->first != 0)
    json.field("interval", std::array{approximate->first, approximate->last});
}

void add_match(JsonStream& json, const IndexMatch& match) {
  json.field("made_from", made_from(match.from_wheel));
  json.field("of_torch", match.of_torch);
  json.field("exact", match.exact);
}

void SourceJson::add_source() const {
  json_.text_or_null("torch", source_.torch_version);
  json_.key("source").object([&] {
    json_.text_or_null("version", source_.version);
    json_.text_or_null("git_version", source_.git_version);
    add_match(json_, source_.match);
  });
}

void SourceJson::add_place(std::string_view name, const SourceLocation& location) const {
  json_.key(name);
  if (location.file.empty()) {
    json_.null();
    return;
  }
  json_.object([&] {
    json_.field("file", location.file);
    add_line(json_, location.line, location.approximate, source_.match);
    json_.text_or_null("url", link_.of_native(location.file, location.line));
  });
}

void SourceJson::add_place_of_line(std::string_view name, std::string_view file, std::uint32_t line,
                                   const std::optional<LineInterval>& approximate) const {
  add_place(name, line == 0 ? SourceLocation{} : SourceLocation{file, line, approximate});
}

}  // namespace optrace
