#include "report/details/returned_values.h"

#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/report/frame_details.h"

using namespace optrace;

namespace {

Detail detail_of_returned(const char* type, const std::vector<ReturnCount>& counts) {
  Detail detail;
  detail.returned = returned_values(*parse_result_type(type), counts, 0);
  return detail;
}

nlohmann::json written(const Detail& detail) {
  return nlohmann::json::parse(detail_json(detail));
}

}  // namespace

TEST_CASE("returned values have a type, their names and their counts", "[returned_values]") {
  const char* const kBackend = "e4 at::native::ConvBackend|Cudnn=2|Mkldnn=8";
  const Detail one = detail_of_returned(kBackend, {{8, 3}});
  CHECK(written(one)["returned"]["type"] == "at::native::ConvBackend");
  CHECK(written(one)["returned"]["value"] == 8);
  CHECK(written(one)["returned"]["name"] == "Mkldnn");
  CHECK(written(one)["returned"]["values"][0]["calls"] == 3);
  CHECK(returned_text(one) == "→ ConvBackend::Mkldnn");
  const Detail two = detail_of_returned("b1 bool", {{1, 1}, {0x100, 2}, {0, 3}});
  CHECK(written(two)["returned"]["values"].size() == 2);
  CHECK(written(two)["returned"]["values"][0]["value"] == false);
  CHECK_FALSE(written(two)["returned"].contains("value"));
  CHECK(returned_text(two) == "→ false ×5, true ×1");
  CHECK(returned_text(detail_of_returned("s4 int", {{7, 1}})) == "→ 7");
  CHECK(returned_text(detail_of_returned(kBackend, {{5, 1}})) == "→ 5");
  CHECK(returned_text(detail_of_returned("p8 pointer", {{0, 1}})) == "→ null");
  const Detail pointers = detail_of_returned("p8 pointer", {{0, 1}, {1, 3}});
  CHECK(returned_text(pointers) == "→ not null ×3, null ×1");
  CHECK(written(pointers)["returned"]["values"][0] ==
        nlohmann::json{{"value", 1}, {"name", "not null"}, {"calls", 3}});
  CHECK(decided_values(pointers, 4).values == std::set<std::string>{"not null", "null"});
  CHECK(decided_values(pointers, 4).of_all_calls);
  CHECK(returned_text(detail_of_returned("s8 long", {{0xFFFFFFFFFFFFFFFF, 2}})) == "→ -1");
  CHECK(decided_values(detail_of_returned("s8 long", {{5, 2}}), 2).values.empty());
  CHECK(returned_text(detail_of_returned("oe1 std::optional<E>|A=0", {{0x100, 1}})) == "→ A");
  CHECK(returned_text(detail_of_returned("oe1 std::optional<E>|A=0", {{0, 1}})) == "→ nullopt");
  CHECK_FALSE(detail_of_returned("b1 bool", {{2, 1}}).returned);
  for (const char* const text : {"null", "7", R"({"returned":3})", R"({"returned":{"values":3}})",
                                 R"({"returned":{"values":[3, null]}})"})
    CHECK(returned_text(read_detail(text)).empty());
}
