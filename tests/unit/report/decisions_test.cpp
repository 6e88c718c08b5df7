#include "report/model/decisions.h"

#include <string>
#include <utility>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

template <typename... Frames>
Frame frame(const std::string& name, nlohmann::json detail, Frames... children) {
  Frame made;
  made.name = name;
  made.detail = std::move(detail);
  (made.children.push_back(std::move(children)), ...);
  return made;
}

nlohmann::json returned(const char* type, nlohmann::json value, const char* name = nullptr) {
  nlohmann::json one{{"value", std::move(value)}, {"calls", 1}};
  if (name != nullptr) one["name"] = name;
  return {{"returned", {{"type", type}, {"values", {std::move(one)}}}}};
}

}  // namespace

TEST_CASE("the reason of a call is the last enumeration before it", "[decisions]") {
  const Frame parent = frame("kernel", nlohmann::json::object(),
                             frame("select", returned("at::Backend", 8, "Mkldnn"),
                                   frame("use_it", returned("bool", true, "true")),
                                   frame("find_it", returned("pointer", 0, "null")),
                                   frame("workspace", returned("long", 4096))),
                             frame("find_other", returned("pointer", 1, "not null")),
                             frame("aten::conv2d", {{"step", "call"}}));
  CHECK(decision_note(parent.children[2], &parent) ==
        "because select returned Backend::Mkldnn: use_it true, find_it null");
}

TEST_CASE("a null pointer is no choice among several", "[decisions]") {
  const Frame parent =
      frame("kernel", nlohmann::json::object(), frame("find_it", returned("pointer", 0, "null")),
            frame("aten::conv2d", {{"step", "call"}}));
  CHECK(decision_note(parent.children[1], &parent).empty());
}
