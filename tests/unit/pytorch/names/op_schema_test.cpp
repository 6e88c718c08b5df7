#include "pytorch/names/op_schema.h"

#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"

using namespace optrace;

namespace {

std::vector<std::string> words(const std::string& schema, bool composite = false) {
  return describe_memory(parse_schema(schema), composite);
}

using Sentences = std::vector<std::string>;

}  // namespace

TEST_CASE("a schema is taken apart") {
  const OpSchema schema = parse_schema(
      "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)");
  CHECK(schema.space == "aten");
  CHECK(schema.name == "add");
  CHECK(schema.overload == "out");
  REQUIRE(schema.arguments.size() == 4);
  CHECK(schema.arguments[0].name == "self");
  CHECK_FALSE(schema.arguments[1].keyword_only);
  CHECK(schema.arguments[2].keyword_only);
  CHECK(schema.arguments[2].default_value == "1");
  CHECK_FALSE(schema.arguments[2].out());
  CHECK(schema.arguments[3].out());
  CHECK(schema.arguments[3].type == "Tensor");
  REQUIRE(schema.returns.size() == 1);
  CHECK(schema.returns[0].alias->before == std::vector<std::string>{"a"});
  CHECK(schema.returns[0].alias->writes);
}

TEST_CASE("types, defaults and alias sets of all shapes are read") {
  const OpSchema schema = parse_schema(
      "f(Tensor(a -> *)[] self, SymInt[2]? size=[1, 2], str mode=\"a, (b\", float? x=1e-05, "
      "Dict(str, Tensor(b|c)) table, (int, int)[] pairs, __torch__.torch.classes.x.Y y, "
      "t[](d!) list, ...) -> (Tensor(a)[] first, int)");
  REQUIRE(schema.arguments.size() == 8);
  CHECK(schema.arguments[0].type == "Tensor[]");
  CHECK(schema.arguments[0].alias->after == std::vector<std::string>{"*"});
  CHECK_FALSE(schema.arguments[0].writes());
  CHECK(schema.arguments[1].type == "SymInt[2]?");
  CHECK(schema.arguments[1].default_value == "[1, 2]");
  CHECK(schema.arguments[2].default_value == "\"a, (b\"");
  CHECK(schema.arguments[3].default_value == "1e-05");
  CHECK(schema.arguments[4].type == "Dict(str, Tensor)");
  CHECK(schema.arguments[4].alias->before == std::vector<std::string>{"b", "c"});
  CHECK(schema.arguments[5].type == "(int, int)[]");
  CHECK(schema.arguments[6].type == "__torch__.torch.classes.x.Y");
  CHECK(schema.arguments[7].writes());
  CHECK(schema.any_arguments);
  REQUIRE(schema.returns.size() == 2);
  CHECK(schema.returns[0].name == "first");
  CHECK(parse_schema("f() -> ()").returns.empty());
  CHECK(parse_schema("f(int[2] x=0) -> ...").any_returns);
}

TEST_CASE("what a schema says of memory is put into words") {
  CHECK(words("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor") ==
        Sentences{"The result is new: no memory is shared with an argument."});
  CHECK(words("add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)") ==
        Sentences{"In-place: changes self.", "Returns self itself."});
  CHECK(words("add.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)") ==
        Sentences{"Out variant: writes its result to out, which is resized if needed.",
                  "Returns out itself."});
  CHECK(words("t(Tensor(a) self) -> Tensor(a)") ==
        Sentences{"The result is a view of self: it shares its memory."});
  CHECK(words("reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", true) ==
        Sentences{"The result is a view of self if possible, otherwise a copy."});
  CHECK(words("split.Tensor(Tensor(a -> *) self, SymInt n) -> Tensor(a)[]") ==
        Sentences{"Each tensor of the result is a view of self: it shares its memory."});
  CHECK(words("native_batch_norm(Tensor input, Tensor(a!)? running_mean, Tensor(b!)? running_var) "
              "-> (Tensor, Tensor, Tensor)") ==
        Sentences{"Changes running_mean and running_var in place.",
                  "The results are new: no memory is shared with an argument."});
  CHECK(words("_foreach_zero_(Tensor(a!)[] self) -> ()") ==
        Sentences{"In-place: changes self.", "Returns nothing."});
  CHECK(words("size.int(Tensor self, int dim) -> int").empty());
}

TEST_CASE("in-place ops are told from Python's operators") {
  CHECK(is_in_place_name("add_"));
  CHECK_FALSE(is_in_place_name("__and__"));
  CHECK_FALSE(is_in_place_name("add"));
  CHECK_FALSE(is_in_place_name("_"));
}

TEST_CASE("what is no schema is refused, and says where") {
  for (const char* text :
       {"", "f", "f(", "f()", "f() ->", "f() -> (", "f(Tensor) -> Tensor", "f(Tensor a -> Tensor",
        "f(Tensor(a b) -> int", "f(Tensor(a x) -> int", "f(int x=) -> int", "f(int[ x) -> int",
        "f() -> Tensor nonsense more", "f(int x=[1) -> int", "(int x) -> int"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_schema(text), Error);
  }
  try {
    (void)parse_schema("f(Tensor self) Tensor");
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("column 16") != std::string::npos);
  }
}

TEST_CASE("damaged schemas are read or refused") {
  const std::string whole =
      "f.x(Tensor(a -> *)[] self, SymInt[2]? size=[1, 2], Dict(str, Tensor(b!)) t, *, str m=\"a\") "
      "-> (Tensor(a)[] first, (int, int)[])";
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = whole;
    for (auto changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 5);
      else
        text[at] = "(){}[]!*|->=,\"'? .:a0\\"[random() % 22];
      if (text.empty()) text = "(";
    }
    try {
      (void)describe_memory(parse_schema(text), false);
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 5000);
  CHECK_THROWS_AS(parse_schema("f(" + std::string(100000, '(')), Error);
  CHECK_THROWS_AS(parse_schema("f(" + std::string(1000, '(')), Error);
}
