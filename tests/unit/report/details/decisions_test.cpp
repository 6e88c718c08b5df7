#include "report/details/decisions.h"

#include <string>
#include <utility>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

template <typename... Frames>
Frame frame_with_detail(const std::string& name, Detail detail, Frames... children) {
  Frame made;
  made.name = name;
  made.detail = std::move(detail);
  (made.children.push_back(std::move(children)), ...);
  return made;
}

Detail returned(const char* type, decltype(CountedResult::value) value, const char* name = "") {
  Detail detail;
  detail.returned = {type, {{value, name, 1}}, 0};
  return detail;
}

Detail detail_of_call() {
  Detail detail;
  detail.dispatch = DispatchDetail();
  return detail;
}

}  // namespace

TEST_CASE("the reason of a call is the last enumeration before it", "[decisions]") {
  const Frame parent = frame_with_detail(
      "kernel", Detail(),
      frame_with_detail("select", returned("at::Backend", std::int64_t{8}, "Mkldnn"),
                        frame_with_detail("use_it", returned("bool", true, "true")),
                        frame_with_detail("find_it", returned("pointer", std::int64_t{0}, "null")),
                        frame_with_detail("workspace", returned("long", std::int64_t{4096}))),
      frame_with_detail("find_other", returned("pointer", std::int64_t{1}, "not null")),
      frame_with_detail("aten::conv2d", detail_of_call()));
  CHECK(decision_note(parent.children[2], &parent) ==
        "because select returned Backend::Mkldnn: use_it true, find_it null");
}

TEST_CASE("a null pointer is no choice among several", "[decisions]") {
  const Frame parent =
      frame_with_detail("kernel", Detail(),
                        frame_with_detail("find_it", returned("pointer", std::int64_t{0}, "null")),
                        frame_with_detail("aten::conv2d", detail_of_call()));
  CHECK(decision_note(parent.children[1], &parent).empty());
}
