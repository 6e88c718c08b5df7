#include "report/details/recorded_variables.h"

#include <vector>

#include <catch2/catch.hpp>

#include "report/details/call_detail.h"

using namespace optrace;

namespace {

Detail detail_of_variables(const std::vector<std::string>& records,
                           const std::vector<OpCallCount>& counts) {
  Trace trace;
  trace.op_records = records;
  Detail detail;
  detail.variables = recorded_variables(OpRecords(trace), counts);
  return detail;
}

}  // namespace

TEST_CASE("variables have their values, the most frequent one first", "[recorded_variables]") {
  const std::vector<std::string> records{
      "{}", R"({"kind":"variables","variables":{"why_not_a":""}})",
      R"({"kind":"variables","variables":{"why_not_a":"it's on","why_not_b":"x"}})"};
  const auto one = detail_of_variables(records, {{2, 0, 1}});
  CHECK(call_note(one) == "why_not_a: 'it's on'; why_not_b: 'x'");
  const auto two = detail_of_variables(records, {{1, 0, 1}, {2, 0, 3}, {1, 0, 1}});
  CHECK(two.variables[0].values[1].calls == 2);
  CHECK(call_note(two) == "why_not_a: 'it's on' ×3, '' ×2; why_not_b: 'x'");
}

TEST_CASE("anything else than a record of variables is skipped", "[recorded_variables]") {
  for (const char* const record :
       {"", "{", "[]", R"({"kind":"variables"})", R"({"kind":"variables","variables":[1]})",
        R"({"kind":"variables","variables":{"a":1}})", R"({"variables":{"a":"b"}})",
        R"({"kind":1,"variables":{"a":"b"}})"})
    CHECK(detail_of_variables({"{}", record}, {{1, 0, 1}, {7, 0, 1}}).variables.empty());
}
