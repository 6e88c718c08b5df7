#include <optional>
#include <string>
#include <vector>

#include "lookup/source_compare/source_comparison_output.h"
#include "platform/text/json_stream.h"

namespace optrace {
namespace {

class ComparisonJsonWriter {
 public:
  explicit ComparisonJsonWriter(JsonStream& json) : json_(json) {}

  void write(const SourceComparison& comparison, const ComparedSource& first,
             const ComparedSource& second) const {
    json_.object([&] {
      json_.field("schema", "optrace.source_comparison/1");
      add_source("first", first);
      add_source("second", second);
      json_.field("not_compared", comparison.not_compared);
      json_.key("ops").object([&] {
        add_declared("added", comparison.added);
        add_declared("removed", comparison.removed);
        add_changed("changed", comparison.changed);
      });
      add_changes("fallbacks", comparison.fallbacks);
      json_.key("decompositions").object([&] {
        add_decompositions("added", comparison.decompositions_added);
        add_decompositions("removed", comparison.decompositions_removed);
      });
    });
  }

 private:
  void add_source(std::string_view name, const ComparedSource& source) const {
    json_.key(name).object([&] {
      json_.field("name", source.label);
      json_.text_or_null("torch", source.torch_version);
      json_.text_or_null("git_version", source.git_version);
      json_.field("index", source.index);
    });
  }

  void add_place(const std::string& file, std::uint32_t line) const {
    json_.key("source");
    if (file.empty()) {
      json_.null();
      return;
    }
    json_.object([&] {
      json_.field("file", file);
      json_.field("line", line == 0 ? std::nullopt : std::optional(line));
    });
  }

  void add_changes(std::string_view name, const std::vector<OpChange>& changes) const {
    json_.key(name).objects(changes, [&](const OpChange& change) {
      json_.field("kind", name_of(change.kind));
      json_.text_or_null("key", change.key);
      json_.text_or_null("before", change.before);
      json_.text_or_null("after", change.after);
    });
  }

  void add_declared(std::string_view name, const std::vector<ComparedOp>& ops) const {
    json_.key(name).objects(ops, [&](const ComparedOp& op) {
      json_.field("op", op.name);
      json_.text_or_null("schema", op.schema);
      add_place(op.file, op.line);
    });
  }

  void add_changed(std::string_view name, const std::vector<ComparedOp>& ops) const {
    json_.key(name).objects(ops, [&](const ComparedOp& op) {
      json_.field("op", op.name);
      add_changes("changes", op.changes);
    });
  }

  void add_decompositions(std::string_view name,
                          const std::vector<PythonDecomposition>& decompositions) const {
    json_.key(name).objects(decompositions, [&](const PythonDecomposition& one) {
      json_.field("name", one.name);
      add_place(one.file, one.line);
    });
  }

  JsonStream& json_;
};

}  // namespace

std::string to_json(const SourceComparison& comparison, const ComparedSource& first,
                    const ComparedSource& second) {
  JsonStream json(1);
  ComparisonJsonWriter(json).write(comparison, first, second);
  return json.text() + '\n';
}

}  // namespace optrace
