#include "report/details/decisions.h"

#include <string>
#include <utility>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

template <typename... Frames>
Frame frame_with_detail(const std::string& name, nlohmann::json detail, Frames... children) {
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
  const Frame parent = frame_with_detail(
      "kernel", nlohmann::json::object(),
      frame_with_detail("select", returned("at::Backend", 8, "Mkldnn"),
                        frame_with_detail("use_it", returned("bool", true, "true")),
                        frame_with_detail("find_it", returned("pointer", 0, "null")),
                        frame_with_detail("workspace", returned("long", 4096))),
      frame_with_detail("find_other", returned("pointer", 1, "not null")),
      frame_with_detail("aten::conv2d", {{"step", "call"}}));
  CHECK(decision_note(parent.children[2], &parent) ==
        "because select returned Backend::Mkldnn: use_it true, find_it null");
}

TEST_CASE("a null pointer is no choice among several", "[decisions]") {
  const Frame parent =
      frame_with_detail("kernel", nlohmann::json::object(),
                        frame_with_detail("find_it", returned("pointer", 0, "null")),
                        frame_with_detail("aten::conv2d", {{"step", "call"}}));
  CHECK(decision_note(parent.children[1], &parent).empty());
}
