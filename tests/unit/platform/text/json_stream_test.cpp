#include "platform/text/json_stream.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace optrace;

namespace {

std::string written(int indentation) {
  JsonStream json(indentation);
  json.object([&] {
    json.field("name", "a\"b\\\n\x01");
    json.field("count", std::uint64_t{1} << 63);
    json.field("distance", -3);
    json.field("exact", true);
    json.field("line", std::optional<int>(4));
    json.field("no line", std::optional<int>());
    json.text_or_null("note", "");
    json.text_or_null("url", "x");
    json.field("words", std::vector<std::string>{"a", "b"});
    json.field("none", std::vector<std::string>());
    json.key("empty").object([] {});
    json.key("parts").objects(std::vector<int>{1, 2}, [&](int part) { json.field("part", part); });
  });
  return json.text();
}

}  // namespace

TEST_CASE("a JSON stream writes what nlohmann's library writes", "[json]") {
  const nlohmann::ordered_json same = {
      {"name", "a\"b\\\n\x01"},
      {"count", std::uint64_t{1} << 63},
      {"distance", -3},
      {"exact", true},
      {"line", 4},
      {"no line", nullptr},
      {"note", nullptr},
      {"url", "x"},
      {"words", {"a", "b"}},
      {"none", nlohmann::ordered_json::array()},
      {"empty", nlohmann::ordered_json::object()},
      {"parts", {{{"part", 1}}, {{"part", 2}}}},
  };
  for (const int indentation : {-1, 0, 1, 2}) CHECK(written(indentation) == same.dump(indentation));
}

TEST_CASE("the text of a JSON stream is valid and harmless", "[json]") {
  JsonStream json;
  json.object([&] {
    json.field("a\xff", "\x80");
    json.field("b", "\u202e");
  });
  CHECK(json.text() == R"({"a\\xff":"\\x80","b":"\u202e"})");
}
