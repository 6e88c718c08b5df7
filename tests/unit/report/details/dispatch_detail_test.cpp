#include "report/details/dispatch_detail.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/report/frame_details.h"
#include "tests/unit/sanitized.h"
#include "tracer/trace/trace_meta_json.h"

using namespace optrace;
using Json = nlohmann::json;

namespace {

// Two backends, and the functionalities that the tests need.
enum Bit : std::uint64_t {
  kCpu = 1U << 0U,
  kCuda = 1U << 1U,
  kDense = 1U << 2U,
  kBackendSelect = 1U << 3U,
  kPython = 1U << 4U,
  kConjugate = 1U << 5U,
  kAdInplaceOrView = 1U << 6U,
  kAutograd = 1U << 7U,
  kAutocastCpu = 1U << 8U,
};

const Json kKeys = {
    {"key_names",
     {{"backends", 2},
      {"functionalities",
       {{{"name", "Dense"}, {"keys", {"CPU", "CUDA"}}},
        "BackendSelect",
        "Python",
        "Conjugate",
        "ADInplaceOrView",
        {{"name", "AutogradFunctionality"}, {"keys", {"AutogradCPU", "AutogradCUDA"}}},
        "AutocastCPU"}}}}};

constexpr const char* kAddTable =
    "Undefined: registered at /pytorch/build/aten/src/ATen/RegisterCompositeExplicit.cpp:21616 "
    "[default backend kernel]\n"
    "CPU: registered at /pytorch/build/aten/src/ATen/RegisterCPU.cpp:30477 [kernel]\n"
    "CUDA: registered at /__w/pytorch/pytorch/build/aten/src/ATen/RegisterCUDA.cpp:44731 [kernel]\n"
    "BackendSelect: fallthrough registered at /pytorch/aten/src/ATen/core/Select.cpp:3 [backend "
    "fallback]\n"
    "Python: registered at ../aten/src/ATen/core/PythonFallbackKernel.cpp:194 [backend fallback]\n"
    "Conjugate: registered at /pytorch/aten/src/ATen/ConjugateFallback.cpp:17 [backend fallback]\n"
    "ADInplaceOrView: fallthrough registered at /pytorch/aten/src/ATen/core/V.cpp:100 [backend "
    "fallback]\n"
    "AutogradCPU: registered at /pytorch/torch/csrc/autograd/generated/VariableType_2.cpp:20142 "
    "[autograd kernel]\n"
    "AutogradCUDA: registered at /site-packages/torch/_registrations.py:5 [kernel]\n"
    "AutocastCPU: fallthrough registered at /pytorch/aten/src/ATen/autocast_mode.cpp:322 [backend "
    "fallback]\n";

Json recorded_tensor(std::uint64_t keys, std::vector<int> shape = {3, 4}) {
  return {{"tensor",
           {{"shape", std::move(shape)},
            {"strides", {4, 1}},
            {"dtype", "float32"},
            {"device", "cpu"},
            {"requires_grad", false},
            {"keys", keys}}}};
}

Json add_record(std::uint64_t keys, std::uint64_t included, std::uint64_t excluded) {
  return {{"op", "aten::add.Tensor"},
          {"schema", "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"},
          {"arguments",
           {{{"name", "self"}, {"value", recorded_tensor(keys)}},
            {{"name", "other"}, {"value", recorded_tensor(keys, {4})}},
            {{"name", "alpha"}, {"value", 1}}}},
          {"included", included},
          {"excluded", excluded},
          {"key_set", (keys | included) & ~excluded},
          {"grad_mode", true},
          {"inference_mode", false},
          {"dispatch_modes", 0}};
}

Trace make_trace(const std::vector<Json>& records) {
  Trace trace;
  trace.meta.torch_folder = "/site-packages/torch";
  trace.meta.dispatch_tables.emplace()["aten::add.Tensor"] = kAddTable;
  trace.op_records.push_back(kKeys.dump());
  for (const Json& record : records) trace.op_records.push_back(record.dump());
  return trace;
}

/// Returns what is known of a step as a report has it; null if that is nothing.
Json detail_of(const Trace& trace, const DispatchDetails::Step& step) {
  Detail detail;
  detail.dispatch = DispatchDetails(trace, OpRecords(trace)).of(step, detail.origins);
  Json written = Json::parse(detail_json(detail));
  written.erase("step");
  return written.empty() ? Json() : written;
}

/// Returns the key that a boxed fallback of the chosen key hands the op on to.
std::string key_after(const Trace& trace, Json chosen) {
  chosen["step"] = "call";
  const Detail from = read_detail(chosen);
  return DispatchDetails(trace, OpRecords(trace))
      .handed_on("aten::add.Tensor", *from.dispatch)
      .choice.dispatch_key;
}

std::string note_of(Json detail) {
  if (!detail.is_object()) return {};
  detail["step"] = "call";
  return dispatch_note(*read_detail(detail).dispatch);
}

Json detail_of(const Trace& trace, const std::vector<OpCallCount>& ops) {
  return detail_of(trace, {.op = "aten::add.Tensor", .ops = ops, .arguments = {}});
}

Json redispatch_of(const Trace& trace, const std::vector<ArgumentCount>& arguments) {
  return detail_of(
      trace, {.op = "aten::add.Tensor", .redispatch = true, .ops = {}, .arguments = arguments});
}

constexpr std::uint64_t kPlainTensor = kCpu | kDense | kAdInplaceOrView | kAutograd;

}  // namespace

TEST_CASE("a call's detail says which keys there were and which was chosen") {
  const Trace trace = make_trace({add_record(kPlainTensor, kBackendSelect, kAutocastCpu)});
  const Json detail = detail_of(trace, {{.record = 1, .calls = 5}});
  CHECK(detail["key_set"] == Json({"AutogradCPU", "ADInplaceOrView", "BackendSelect", "CPU"}));
  CHECK(detail["included"] == Json({"BackendSelect"}));
  CHECK(detail["excluded"] == Json({"AutocastCPU"}));
  CHECK(detail["fallthrough"] == Json::array());
  CHECK(detail["dispatch_key"] == "AutogradCPU");
  CHECK(detail["dispatch"] == "kernel");
  CHECK(detail["kernel"] ==
        "registered at /pytorch/torch/csrc/autograd/generated/VariableType_2.cpp:20142 [autograd "
        "kernel]");
  CHECK(detail["registered_at"] == "torch/csrc/autograd/generated/VariableType_2.cpp:20142");
  CHECK(detail["grad_mode"] == true);
  CHECK(detail["inference_mode"] == false);
  CHECK(detail["arguments"][0]["value"]["tensor"]["keys"] ==
        Json({"AutogradCPU", "ADInplaceOrView", "CPU"}));
  CHECK(detail["arguments"][1]["value"]["tensor"]["shape"] == Json({4}));
  CHECK(detail["arguments"][2] == Json({{"name", "alpha"}, {"value", 1}}));
  CHECK_FALSE(detail.contains("variants"));
}

TEST_CASE("repeated calls are counted, unless they record a graph") {
  Json result = recorded_tensor(kPlainTensor);
  result["relation"] = "fresh";
  Json with_graph = result;
  with_graph["tensor"]["requires_grad"] = true;
  const Trace trace = make_trace({
      add_record(kPlainTensor, kBackendSelect, kAutocastCpu),
      {{"results", {result}}},
      {{"results", {result}}, {"repeated", true}},
      {{"results", {result, Json::array({with_graph})}}, {"repeated", true}},
      {{"results", 5}, {"repeated", true}},
  });
  const auto repeated = [&](const std::vector<OpCallCount>& ops) {
    return detail_of(trace, ops).value("repeated_calls", 0);
  };
  CHECK(repeated({{.record = 1, .results = 2, .calls = 4},
                  {.record = 1, .results = 3, .calls = 5}}) == 5);
  CHECK(repeated({{.record = 1, .results = 2, .calls = 4}}) == 0);
  CHECK(repeated({{.record = 1, .results = 4, .calls = 5}}) == 0);
  CHECK(repeated({{.record = 1, .results = 5, .calls = 5}}) == 0);
  CHECK(detail_of(trace, {{.record = 1, .results = 2, .calls = 4},
                          {.record = 1, .results = 3, .calls = 5}})
            .contains("variants") == false);
}

TEST_CASE("what falls through above the chosen key is listed") {
  const Trace trace = make_trace(
      {add_record(kCpu | kDense | kAdInplaceOrView, kBackendSelect | kAutocastCpu, kAutograd)});
  const Json detail = detail_of(trace, {{.record = 1, .calls = 1}});
  CHECK(detail["fallthrough"] == Json({"AutocastCPU", "ADInplaceOrView", "BackendSelect"}));
  CHECK(detail["dispatch_key"] == "CPU");
  CHECK(detail["registered_at"] == "build/aten/src/ATen/RegisterCPU.cpp:30477");
  // A functionality without a backend, as in the thread-local excluded set, has its own name.
  CHECK(detail["excluded"] == Json({"AutogradFunctionality"}));
}

TEST_CASE("the highest backend's kernel is the one of a functionality that backends share") {
  const Trace trace = make_trace({add_record(kPlainTensor | kCuda, 0, 0)});
  const Json detail = detail_of(trace, {{.record = 1, .calls = 1}});
  CHECK(detail["dispatch_key"] == "AutogradCUDA");
  CHECK(detail["registered_at"] == "torch/_registrations.py:5");
  CHECK(detail["key_set"] ==
        Json({"AutogradCUDA", "AutogradCPU", "ADInplaceOrView", "CUDA", "CPU"}));
}

TEST_CASE("kernels, boxed kernels, fallbacks and Python are told apart") {
  Trace trace = make_trace({add_record(kPlainTensor | kConjugate, 0, kAutograd),
                            add_record(kPlainTensor | kPython, 0, kAutograd | kAdInplaceOrView),
                            add_record(kPlainTensor | kCuda, 0, 0)});
  trace.meta.boxed_kernels.emplace()["aten::add.Tensor"] = {
      "registered at /site-packages/torch/_registrations.py:5"};
  const Json conjugate = detail_of(trace, {{.record = 1, .calls = 1}});
  CHECK(conjugate["dispatch_key"] == "Conjugate");
  CHECK(conjugate["dispatch"] == "boxed fallback");
  CHECK(key_after(trace, conjugate) == "CPU");
  const Json python = detail_of(trace, {{.record = 2, .calls = 1}});
  CHECK(python["dispatch"] == "python");
  CHECK(python["registered_at"] == "aten/src/ATen/core/PythonFallbackKernel.cpp:194");
  CHECK(detail_of(trace, {{.record = 3, .calls = 1}})["dispatch"] == "boxed kernel");
}

TEST_CASE("a call without tensors gets the kernel for no key") {
  const Trace trace = make_trace({add_record(0, kBackendSelect, 0)});
  const Json detail = detail_of(trace, {{.record = 1, .calls = 1}});
  CHECK(detail["dispatch_key"] == "Undefined");
  CHECK(detail["fallthrough"] == Json({"BackendSelect"}));
}

TEST_CASE("a key for which nothing is registered is chosen, and has no kernel") {
  Trace trace = make_trace({add_record(kCpu | kDense, 0, 0)});
  trace.meta.dispatch_tables->at("aten::add.Tensor") = "CUDA: registered at /x/y.cpp:1 [kernel]\n";
  const Json detail = detail_of(trace, {{.record = 1, .calls = 1}});
  CHECK(detail["dispatch_key"] == "CPU");
  CHECK(detail["kernel"].is_null());
  CHECK_FALSE(detail.contains("dispatch"));
}

TEST_CASE("without a table there are key sets, and no choice") {
  Trace trace = make_trace({add_record(kPlainTensor, 0, 0)});
  trace.meta.dispatch_tables.reset();
  const Json detail = detail_of(trace, {{.record = 1, .calls = 1}});
  CHECK(detail["key_set"] == Json({"AutogradCPU", "ADInplaceOrView", "CPU"}));
  CHECK_FALSE(detail.contains("dispatch_key"));
  CHECK(note_of(detail).empty());
}

TEST_CASE("calls of several kinds are variants, and the most frequent one is shown") {
  Json results = {{"results", {recorded_tensor(kPlainTensor)}}};
  results["results"][0]["relation"] = "view";
  results["results"][0]["of"] = "self";
  const Trace trace =
      make_trace({add_record(kPlainTensor, 0, 0), add_record(kCpu | kDense, 0, 0), results});
  const std::vector<OpCallCount> counts{{.record = 1, .results = 0, .calls = 2},
                                        {.record = 2, .results = 0, .calls = 2},
                                        {.record = 2, .results = 3, .calls = 5}};
  const Json detail = detail_of(
      trace, {.op = "aten::add.Tensor", .ops = counts, .arguments = {}, .ops_left_out = 9});
  CHECK(detail["dispatch_key"] == "CPU");
  CHECK(detail["results"][0]["relation"] == "view");
  CHECK(detail["results"][0]["of"] == "self");
  REQUIRE(detail["variants"].size() == 2);
  CHECK(detail["variants"][0]["calls"] == 2);
  CHECK(detail["variants"][0]["dispatch_key"] == "AutogradCPU");
  CHECK(detail["variants"][1]["calls"] == 7);
  CHECK(detail["variants"][1]["arguments"].size() == 3);
  CHECK(detail["variants_left_out"] == 9);
}

TEST_CASE("which thread came first decides nothing") {
  const Trace trace = make_trace({add_record(kPlainTensor, 0, 0), add_record(kCpu | kDense, 0, 0)});
  const OpCallCount one{.record = 1, .results = 0, .calls = 1};
  const OpCallCount other{.record = 2, .results = 0, .calls = 1};
  const auto detail = [&](const std::vector<OpCallCount>& counts, bool by_threads) {
    return detail_of(
        trace,
        {.op = "aten::add.Tensor", .ops = counts, .arguments = {}, .by_threads = by_threads});
  };
  CHECK(detail({one, other}, true) == detail({other, one}, true));
  CHECK(detail({one, other}, false) != detail({other, one}, false));
}

TEST_CASE("records of another op are not the frame's") {
  const Trace trace = make_trace({add_record(kPlainTensor, 0, 0)});
  const std::vector<OpCallCount> counts{{.record = 1, .calls = 2}};
  CHECK(detail_of(trace, {.op = "aten::mul.Tensor", .ops = counts, .arguments = {}}).is_null());
}

TEST_CASE("a redispatch's key set is the argument that can be one") {
  const Trace trace = make_trace({add_record(kPlainTensor, 0, 0)});
  constexpr std::uint64_t kStackAddress = 0x7FFC12345678;
  const std::uint64_t after_autograd = kCpu | kDense | kAdInplaceOrView;
  const Json detail =
      redispatch_of(trace, {{.first = kStackAddress, .second = after_autograd, .calls = 3}});
  CHECK(detail["key_set"] == Json({"ADInplaceOrView", "CPU"}));
  // A redispatch takes the set as it is: nothing falls through.
  CHECK(detail["dispatch_key"] == "ADInplaceOrView");
  CHECK_FALSE(detail.contains("fallthrough"));
  CHECK(
      redispatch_of(
          trace, {{.first = kCpu | kDense, .second = kStackAddress, .calls = 3}})["dispatch_key"] ==
      "CPU");
  // Both arguments could be the set. `-> Tensor` is returned in memory, so it is the second.
  CHECK(redispatch_of(
            trace,
            {{.first = kCuda | kDense, .second = kCpu | kDense, .calls = 3}})["dispatch_key"] ==
        "CPU");
  CHECK(redispatch_of(trace, {{.first = kStackAddress, .second = kStackAddress, .calls = 3}})
            .is_null());
}

TEST_CASE("a redispatch that returns a reference has its key set first") {
  Json record = add_record(kPlainTensor, 0, 0);
  record["schema"] = "aten::add.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)";
  const Trace trace = make_trace({record});
  const Json detail =
      redispatch_of(trace, {{.first = kCpu | kDense, .second = kCpu | kPython, .calls = 3},
                            {.first = kCuda | kDense, .second = 1, .calls = 1}});
  CHECK(detail["dispatch_key"] == "CPU");
  REQUIRE(detail["variants"].size() == 2);
}

TEST_CASE("names of nodes and ops are told by their records") {
  const Trace trace = make_trace({add_record(kPlainTensor, 0, 0), {{"node", "AddBackward0"}}});
  const OpRecords records(trace);
  CHECK(records.find<OpCallRecord>(1)->op == "aten::add.Tensor");
  CHECK(records.find<OpCallRecord>(2) == nullptr);
  CHECK(records.find<NodeRun>(2)->name == "AddBackward0");
  CHECK(records.find<NodeRun>(1) == nullptr);
  CHECK(records.find<NodeRun>(77) == nullptr);
}

TEST_CASE("a record is of one kind, and anything else is none") {
  CHECK(std::get<LibraryCall>(read_op_record(R"({"kind": "library", "op": "x"})")).kind ==
        "library");
  CHECK(std::get<OpResults>(read_op_record(R"({"results": 3, "repeated": true})")).results.empty());
  const std::string too_long(std::size_t{1} << 20, ' ');
  for (const std::string& other :
       {std::string(), std::string("[]"), std::string("{"), std::string(R"({"op": ""})"),
        std::string(R"({"op": ["x"], "node": 3})"), std::string(R"({"tensors": []})"),
        std::string(R"({"op": "x"})") + too_long, "[" + std::string(100, '[')})
    CHECK(std::holds_alternative<std::monostate>(read_op_record(other)));
}

TEST_CASE("a note is one short line") {
  const Trace trace = make_trace(
      {add_record(kCpu | kDense | kConjugate, kBackendSelect | kAutocastCpu, kAutograd)});
  CHECK(note_of(detail_of(trace, {{.record = 1, .calls = 1}})) ==
        "→ Conjugate, boxed fallback (of AutocastCPU, Conjugate, BackendSelect, CPU; skips "
        "AutocastCPU)");
  CHECK(note_of({{"dispatch_key", "CPU"}, {"key_set", {"CPU"}}}) == "→ CPU");
  CHECK(note_of(Json()).empty());
  CHECK(note_of({{"dispatch_key", 3}}).empty());
}

// Checks that details have the types of the schema, whatever a trace file contains.
namespace {

void check_value(const Json& value, bool outermost) {
  if (value.is_array()) {
    CHECK(outermost);
    for (const Json& element : value) check_value(element, false);
  } else if (value.is_object()) {
    const bool is_tensor = value.contains("tensor");
    CHECK((is_tensor || value.at("type").is_string()));
    if (is_tensor) {
      const Json& inner = value.at("tensor");
      CHECK((inner.at("shape").is_null() || inner.at("shape").is_array()));
      CHECK((inner.at("dtype").is_null() || inner.at("dtype").is_string()));
      CHECK(inner.at("requires_grad").is_boolean());
      for (const Json& key : inner.at("keys")) CHECK(key.is_string());
    }
  } else {
    CHECK(value.is_primitive());
  }
}

void check_detail(const Json& detail) {
  if (detail.is_null()) return;
  REQUIRE(detail.is_object());
  for (const char* const key : {"key_set", "included", "excluded", "fallthrough"})
    if (detail.contains(key))
      for (const Json& name : detail[key]) CHECK(name.is_string());
  for (const char* const key : {"schema", "dispatch_key", "registered_at", "dispatch"})
    if (detail.contains(key)) CHECK(detail[key].is_string());
  if (detail.contains("arguments"))
    for (const Json& argument : detail["arguments"]) {
      CHECK((argument.at("name").is_null() || argument.at("name").is_string()));
      check_value(argument.at("value"), true);
    }
  if (detail.contains("results"))
    for (const Json& result : detail["results"]) check_value(result, true);
}

Json any_json(std::mt19937& random, int depth) {
  switch (random() % (depth > 0 ? 9U : 7U)) {
    case 0:
      return nullptr;
    case 1:
      return random();
    case 2:
      return -static_cast<std::int64_t>(random());
    case 3:
      return "text";
    case 4:
      return true;
    case 5:
      return 0.5;
    case 6:
      return std::string(5000, 'x');
    case 7: {
      Json list = Json::array();
      for (unsigned i = random() % 4; i > 0; --i) list.push_back(any_json(random, depth - 1));
      return list;
    }
    default:
      return {{"tensor", any_json(random, depth - 1)},
              {"value", any_json(random, depth - 1)},
              {"type", any_json(random, depth - 1)}};
  }
}

// Replaces one value at a random place in `whole`.
void damage(Json& whole, std::mt19937& random) {
  Json* at = &whole;
  while (at->is_structured() && !at->empty() && random() % 6 != 0) {
    auto child = at->begin();
    std::advance(child, static_cast<std::ptrdiff_t>(random() % at->size()));
    at = &*child;
  }
  *at = any_json(random, 3);
}

}  // namespace

TEST_CASE("damaged records and tables never give a detail of other types") {
  std::mt19937 random(26207);
  std::size_t details = 0;
  for (std::size_t round = 0; round < 3000 / kOneOf; ++round) {
    Trace trace = make_trace({add_record(kPlainTensor, kBackendSelect, kAutocastCpu),
                              {{"results", {recorded_tensor(kPlainTensor)}}}});
    for (std::string& record : trace.op_records) {
      if (random() % 2 == 0) {
        Json parsed = Json::parse(record);
        damage(parsed, random);
        record = parsed.dump();
      }
      if (random() % 8 == 0 && !record.empty())
        record[random() % record.size()] = static_cast<char>(random() % 256);
    }
    if (random() % 4 == 0) {
      Json meta = to_json(trace.meta);
      damage(meta, random);
      trace.meta = trace_meta_of(meta);
    }
    const std::vector<OpCallCount> counts{{.record = 1, .results = 2, .calls = 1},
                                          {.record = static_cast<std::uint32_t>(random() % 9),
                                           .results = static_cast<std::uint32_t>(random() % 9),
                                           .calls = random()}};
    const std::vector<ArgumentCount> arguments{
        {.first = random(), .second = random(), .calls = random()}};
    Json detail = detail_of(trace, counts);
    check_detail(detail);
    if (!detail.is_null()) ++details;
    note_of(detail);
    damage(detail, random);
    note_of(detail);
    check_detail(redispatch_of(trace, arguments));
  }
  CHECK(details > 1000 / kOneOf);
}
