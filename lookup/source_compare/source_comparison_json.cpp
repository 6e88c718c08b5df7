#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lookup/source_compare/source_comparison_output.h"
#include "platform/text/json_writer.h"
#include "present/json_or_null.h"

namespace optrace {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson place_or_null(const std::string& file, std::uint32_t line) {
  if (file.empty()) return {};
  return {{"file", file}, {"line", line == 0 ? OrderedJson() : OrderedJson(line)}};
}

OrderedJson json_of(const ComparedSource& source) {
  return {{"name", source.label},
          {"torch", text_or_null(source.torch_version)},
          {"git_version", text_or_null(source.git_version)},
          {"index", source.index}};
}

OrderedJson json_of(const std::vector<OpChange>& changes) {
  OrderedJson list = OrderedJson::array();
  for (const OpChange& change : changes)
    list.push_back({{"kind", name_of(change.kind)},
                    {"key", text_or_null(change.key)},
                    {"before", text_or_null(change.before)},
                    {"after", text_or_null(change.after)}});
  return list;
}

OrderedJson declared(const std::vector<ComparedOp>& ops) {
  OrderedJson list = OrderedJson::array();
  for (const ComparedOp& op : ops)
    list.push_back({{"op", op.name},
                    {"schema", text_or_null(op.schema)},
                    {"source", place_or_null(op.file, op.line)}});
  return list;
}

OrderedJson changed(const std::vector<ComparedOp>& ops) {
  OrderedJson list = OrderedJson::array();
  for (const ComparedOp& op : ops)
    list.push_back({{"op", op.name}, {"changes", json_of(op.changes)}});
  return list;
}

OrderedJson json_of(const std::vector<PythonDecomposition>& decompositions) {
  OrderedJson list = OrderedJson::array();
  for (const PythonDecomposition& one : decompositions)
    list.push_back({{"name", one.name}, {"source", place_or_null(one.file, one.line)}});
  return list;
}

}  // namespace

std::string to_json(const SourceComparison& comparison, const ComparedSource& first,
                    const ComparedSource& second) {
  const OrderedJson json = {{"schema", "optrace.source_comparison/1"},
                            {"first", json_of(first)},
                            {"second", json_of(second)},
                            {"not_compared", comparison.not_compared},
                            {"ops",
                             {{"added", declared(comparison.added)},
                              {"removed", declared(comparison.removed)},
                              {"changed", changed(comparison.changed)}}},
                            {"fallbacks", json_of(comparison.fallbacks)},
                            {"decompositions",
                             {{"added", json_of(comparison.decompositions_added)},
                              {"removed", json_of(comparison.decompositions_removed)}}}};
  return write_json(json, 1) + "\n";
}

}  // namespace optrace
