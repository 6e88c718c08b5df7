#include "report/tensors/tensor_log.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/core.h>

#include "report/tensors/tensor_detail.h"
#include "report/tensors/tensor_history.h"
#include "report/tensors/tensors_output.h"

using namespace optrace;

namespace {

Trace trace_with(const std::vector<std::string>& chunks) {
  Trace trace;
  trace.op_records = {"{}"};
  for (const std::string& entries : chunks)
    trace.op_records.push_back(fmt::format(R"({{"tensors":[{}]}})", entries));
  return trace;
}

std::string tensor(int storage, const std::string& more, const std::string& strides = "[1]") {
  return fmt::format(R"({{"shape":[4],"strides":{},"dtype":"float32","device":"cpu","version":0,)"
                     R"("storage":{},"offset":0{}}})",
                     strides, storage, more);
}

}  // namespace

TEST_CASE("the peak is the largest sum of the storages of a device", "[tensors]") {
  const auto log = read_tensor_log(trace_with({
      R"({"storage":1,"bytes":100,"device":"cpu","call":1},)"
      R"({"storage":2,"bytes":50,"device":"cpu","call":2},{"ended":1,"before":3})",
      R"({"storage":3,"bytes":90,"device":"cpu","call":3},{"resized":2,"bytes":70,"call":4},)"
      R"({"storage":4,"bytes":999,"device":"meta","call":4},)"
      R"({"storage":5,"bytes":7,"device":"cuda:0","call":5})",
  }));
  REQUIRE(log);
  REQUIRE(log->peaks.size() == 2);
  const PeakMemory& peak = log->peaks.at("cpu");
  CHECK(peak.bytes == 160);
  CHECK(peak.call == 4);
  CHECK(peak.storages == std::vector<std::uint64_t>{3, 2});
  CHECK(log->storages.at(2).largest == 70);
  CHECK(log->storages.at(1).ended_before == 3);
}

TEST_CASE("a copy is told by its op, and its reason by what differs", "[tensors]") {
  const auto log = read_tensor_log(trace_with({
      R"({"call":2,"op":"aten::copy_","in":1,"arguments":[)" +
          tensor(2, R"(,"name":"self","written":true)") + "," +
          tensor(1, R"(,"name":"src")", "[2]") +
          R"(],"results":[]},{"call":1,"op":"aten::clone","arguments":[)" + tensor(1, "", "[2]") +
          R"(],"results":[)" + tensor(2, R"(,"relation":"fresh")") +
          "]},"
          R"({"variable":"x","file":0,"tensor":7,"storage":2})",
  }));
  REQUIRE(log);
  const auto copies = all_copies(*log);
  REQUIRE(copies.size() == 1);
  CHECK(copies[0].copy.from == 1);
  CHECK(copies[0].copy.to == 2);
  CHECK(copies[0].copy.reason == "layout: strides 2 to 1");
  CHECK(copies[0].through == std::vector<std::string>{"aten::clone", "aten::copy_"});
  const auto histories = histories_of(*log, "x");
  REQUIRE(histories.size() == 1);
  CHECK(histories[0].copied_from.size() == 1);
  CHECK(histories[0].steps.size() == 1);
}

TEST_CASE("entries of a log that can't be are skipped", "[tensors]") {
  const Trace trace = trace_with({
      R"(1,null,"x",{},[],{"call":0,"op":"a"},{"call":3,"op":"b","in":3},{"call":2,"op":"c","in":9},)"
      R"({"call":5,"op":"d","in":4,"arguments":[1,{"shape":["x"],"storage":-1}],"results":{}},)"
      R"({"call":5,"op":"again"},{"ended":77,"before":1},{"resized":77,"bytes":1},{"saved":77},)"
      R"({"storage":1,"bytes":-5,"call":"x"},{"storage":1,"bytes":9},{"variable":3,"tensor":1},)"
      R"({"variable":"v","tensor":18446744073709551615,"storage":99})",
      "broken",
  });
  const auto log = read_tensor_log(trace);
  REQUIRE(log);
  REQUIRE(log->calls.size() == 1);
  CHECK(log->calls[0].name == "d");
  CHECK(log->outermost(5) == log->call(5));
  CHECK(log->storages.at(1).bytes == 0);
  TensorsAnswer answer;
  answer.log = *log;
  answer.histories = histories_of(*log, "");
  CHECK(!to_text(answer, {}).empty());
  CHECK(!to_json(answer).empty());
  CHECK(!TensorDetails(trace).of(1));
  CHECK(!read_tensor_log(Trace()));
}
