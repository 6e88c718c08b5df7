#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "report/compare/formats/compared_tree.h"
#include "report/compare/formats/comparison_json.h"
#include "report/compare/formats/comparison_page.h"
#include "report/formats/html/page_json.h"
#include "report/formats/html/page_tables_json.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

using RowNumbers = std::unordered_map<const Frame*, std::size_t>;

RowNumbers numbers_of(const std::vector<PageRow>& rows) {
  RowNumbers numbers;
  for (std::size_t row = 0; row < rows.size(); ++row) numbers.emplace(rows[row].frame, row);
  return numbers;
}

Json list_of(const std::vector<Difference>& differences, const RowNumbers& numbers) {
  Json list = Json::array();
  for (const Difference& difference : differences) {
    Json one = json_of(difference);
    const auto row = numbers.find(difference.frame);
    one["row"] = row == numbers.end() ? Json() : Json(row->second);
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

void to_html_page(const Report& first, const Report& second, const Comparison& comparison,
                  const ComparisonLabels& labels, const CompareOptions& options,
                  const PageOptions& page, OutputSink& sink) {
  std::vector<PageRow> rows = compared_rows(first, second, comparison, options);
  const RowNumbers numbers = numbers_of(rows);
  const Json described = {
      {"first", labels.first},
      {"second", labels.second},
      {"header", page_header(second)},
      {"summary", page_summary(second)},
      {"same_build", comparison.same_build},
      {"conclusive", comparison.conclusive},
      {"passed_over",
       {{"first", comparison.passed_over_first}, {"second", comparison.passed_over_second}}},
      {"emulated_reads", comparison.emulated_reads},
      {"changes", list_of(comparison.differences, numbers)},
      {"not_known", list_of(comparison.not_known, numbers)}};
  to_comparison_page({.first = first, .rows = std::move(rows), .comparison = page_json(described)},
                     page, sink);
}

}  // namespace optrace
