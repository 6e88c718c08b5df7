#include "lookup/locate/locate_json.h"

#include <string>
#include <string_view>
#include <vector>

#include "lookup/locate/locate_output.h"
#include "lookup/locate/source_json.h"
#include "pytorch/source/source_files.h"

namespace optrace {
namespace {

constexpr const char* kSchema = "optrace.locate/1";

class LocateJsonWriter {
 public:
  LocateJsonWriter(JsonStream& json, const IndexedSource& source) : json_(json), source_(source) {}

  void add_head(std::string_view query) const {
    json_.field("schema", kSchema);
    json_.field("query", query);
    json_.key("torch");
    if (source_.torch_version.empty())
      json_.null();
    else
      json_.object([&] {
        json_.field("version", source_.torch_version);
        json_.text_or_null("git_version", source_.torch_git_version);
      });
    add_source(json_, source_);
  }

  void add_answers(const LocateResult& result) const {
    json_.field("total", result.total);
    json_.key("answers");
    write(result.answers);
    if (!result.definition) return;
    const LocatedDefinition& definition = *result.definition;
    json_.key("definition").object([&] {
      json_.field("file", definition.file);
      json_.field("path", definition.path);
      json_.field("line", definition.text.line);
      json_.field("moved", definition.text.moved);
      json_.field("first_line", definition.text.first);
      json_.field("lines", definition.text.lines);
    });
  }

 private:
  void write(const std::vector<Located>& all) const {
    json_.objects(all, [&](const Located& located) { add(located); });
  }

  void add(const Located& located) const {
    json_.field("kind", name_of(located.kind));
    json_.text_or_null("role", located.role);
    json_.text_or_null("key", located.key);
    json_.field("name", located.name);
    json_.text_or_null("parameters", located.parameters);
    json_.text_or_null("symbol", located.symbol);
    add_source_of(located);
    json_.text_or_null("library", located.library);
    if (located.call_line != 0)
      json_.key("call").object([&] {
        add_line(json_, located.call_line, located.call_approximate,
                 match_of_call(located, source_));
      });
    if (!located.note.empty()) json_.field("note", located.note);
    if (located.left_out != 0) json_.field("left_out", located.left_out);
    json_.key("parts");
    write(located.parts);
  }

  void add_source_of(const Located& located) const {
    json_.key("source");
    if (located.file.empty()) {
      json_.null();
      return;
    }
    json_.object([&] {
      add_place(json_, located, source_);
      json_.field("generated", is_generated_source(located.file));
      json_.text_or_null("path", located.path);
      json_.text_or_null("url", located.url);
    });
  }

  JsonStream& json_;
  const IndexedSource& source_;
};

std::string written(const LocateResult& result, const IndexedSource& source, int indentation) {
  JsonStream json(indentation);
  const LocateJsonWriter writer(json, source);
  json.object([&] {
    writer.add_head(result.query);
    writer.add_answers(result);
  });
  return json.text() + '\n';
}

}  // namespace

void add_place(JsonStream& json, const Located& located, const IndexedSource& source) {
  json.field("file", located.file);
  add_line(json, located.line, located.approximate, match_of(located, source));
}

void add_source(JsonStream& json, const IndexedSource& source) {
  json.key("source").object([&] {
    json.field("version", source.version);
    add_match(json, source.match);
  });
}

std::string to_json(const LocateResult& result, const IndexedSource& source) {
  return written(result, source, 1);
}

std::string to_json_line(const LocateResult& result, const IndexedSource& source) {
  return written(result, source, -1);
}

std::string error_to_json_line(std::string_view query, std::string_view error,
                               const std::vector<std::string>& suggestions,
                               const IndexedSource& source) {
  JsonStream json;
  json.object([&] {
    LocateJsonWriter(json, source).add_head(query);
    json.field("error", error);
    json.field("suggestions", suggestions);
  });
  return json.text() + '\n';
}

}  // namespace optrace
