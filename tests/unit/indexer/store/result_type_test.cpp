#include "indexer/store/result_type.h"

#include <string>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

ResultType parsed(const std::string& text) {
  const auto type = parse_result_type(text);
  REQUIRE(type);
  CHECK(text_of(*type) == text);
  return *type;
}

std::string name_of(const std::string& type, std::uint64_t rax) {
  const auto value = read_result(parsed(type), rax);
  return value ? value->name : "no value";
}

}  // namespace

TEST_CASE("types of results are written and read back", "[result_type]") {
  const ResultType backend = parsed("e4 at::native::ConvBackend|Cudnn=2|Mkldnn=8|error=-1");
  CHECK(backend.form == ResultForm::signed_enumeration);
  CHECK(backend.size == 4);
  CHECK(backend.name == "at::native::ConvBackend");
  CHECK(backend.enumerators == std::vector<Enumerator>{{"Cudnn", 2}, {"Mkldnn", 8}, {"error", -1}});
  CHECK(parsed("oe1 std::optional<c10::Layout>|Strided=0").value_form ==
        ResultForm::signed_enumeration);
  for (const char* const text : {"", "b", "b1", "b1 ", "x1 bool", "b0 bool", "b9 bool", "o1 bool",
                                 "op8 pointer", "os8 std::optional<long>", "e1 E|", "e1 E|A",
                                 "e1 E|=1", "e1 E|A=x", "e1 E|A=1 ", "bb1 bool"})
    CHECK_FALSE(parse_result_type(text));
}

TEST_CASE("a register is read as the type says", "[result_type]") {
  CHECK(name_of("b1 bool", 0xFFFF'FFFF'FFFF'FF01) == "true");
  CHECK(name_of("b1 bool", 0x100) == "false");
  CHECK(name_of("b1 bool", 2) == "no value");
  CHECK(name_of("e4 E|A=-1|B=3", 0xFFFF'FFFF) == "A");
  CHECK(name_of("n1 E|A=255", 0x12FF) == "A");
  CHECK(name_of("e1 E|A=255", 0x12FF).empty());
  CHECK(read_result(parsed("s4 int"), 0xFFFF'FFFE)->number == -2);
  CHECK(read_result(parsed("u4 unsigned int"), 0xFFFF'FFFE)->number == 0xFFFF'FFFE);
  CHECK(name_of("p8 pointer", 0) == "null");
  CHECK(name_of("p8 pointer", 8) == "not null");
  CHECK(name_of("ob1 std::optional<bool>", 0x101) == "true");
  CHECK(name_of("ob1 std::optional<bool>", 0x1) == "nullopt");
  CHECK(read_result(parsed("ob1 std::optional<bool>"), 0x1)->is_empty);
  CHECK(name_of("ob1 std::optional<bool>", 0x201) == "no value");
}
