#include "indexer/frontend/worker_protocol.h"

#include <functional>
#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "platform/error.h"

using namespace optrace;

namespace {

const WorkerSetup kSetup{{{"/src", ""}, {"/tmp/a \"quoted\"\n folder", "build/aten/src/ATen"}},
                         {"/src/third_party"},
                         std::uint64_t{5} << 32};

UnitTask task() {
  UnitTask made;
  made.number = 7;
  made.source = "/src/Convolution.cpp";
  made.arguments = {"-DX=\"y\"", "", "-I", "/a\\b"};
  made.result = "/tmp/results/7";
  made.precompiled = "/tmp/aten.pch";
  return made;
}

const IndexContents::Function kConv2dFunction = {
    "_ZN2at6native6conv2dEv", "aten/src/ATen/native/Convolution.cpp", 984, {}};
const IndexContents::Function kLaunching = {
    "_ZN2at6native3addEv",
    "a folder/B.cu",
    20,
    {{"sgemm_", 21}, {"_ZN2at6native6conv2dEv", 4294967295, CallKind::launch}},
    DefinitionKind::device_kernel,
    {},
    "e4 Kind|A=1"};
const IndexContents::Registration kKernel = {RegistrationKind::kernel, "aten::add.Tensor", "CPU",
                                             "_ZN2at6native3addEv",    "a folder/B.cu",    7};
const IndexContents::Registration kFallthrough = {
    RegistrationKind::fallthrough, "_", "AutogradCPU", "", "B.cpp", 8};

std::string findings_text() {
  std::string text;
  append_function(kConv2dFunction, text);
  append_function(kLaunching, text);
  append_registration(kKernel, text);
  append_registration(kFallthrough, text);
  append_inclusion("/src/a folder/B.cu", text);
  return text;
}

/// Returns true if `parse` succeeds, false if it throws Error(failed). Anything else is a defect.
bool is_understood(const std::function<void()>& parse) {
  try {
    parse();
    return true;
  } catch (const Error& error) {
    CHECK(error.status() == ExitStatus::failed);
    CHECK_FALSE(error.remedy().empty());
    return false;
  }
}

}  // namespace

TEST_CASE("worker protocol: what is sent arrives") {
  const WorkerSetup setup = parse_setup(to_line(kSetup));
  REQUIRE(setup.folders.size() == 2);
  CHECK(setup.folders[0].name.empty());
  CHECK(setup.folders[1].folder == kSetup.folders[1].folder);
  CHECK(setup.folders[1].name == kSetup.folders[1].name);
  CHECK(setup.left_out == kSetup.left_out);
  CHECK(setup.memory_limit == kSetup.memory_limit);

  const UnitTask received = parse_task(to_line(task()));
  CHECK(received.number == 7);
  CHECK(received.source == task().source);
  CHECK(received.arguments == task().arguments);
  CHECK(received.result == task().result);
  CHECK(received.precompiled == task().precompiled);

  for (const auto outcome : {UnitOutcome::done, UnitOutcome::not_parsed, UnitOutcome::not_saved,
                             UnitOutcome::out_of_memory}) {
    UnitStatus status;
    status.number = 9;
    status.outcome = outcome;
    status.errors = 3;
    status.first_error = "a.cpp:1:2: error: \xff is no UTF-8";  // Sources may contain such bytes.
    const UnitStatus back = parse_status(to_line(status));
    CHECK(back.number == 9);
    CHECK(back.outcome == outcome);
    CHECK(back.errors == 3);
    CHECK(back.first_error.starts_with("a.cpp:1:2: error: "));
  }
}

TEST_CASE("worker protocol: each message is one line") {
  for (const std::string& line : {to_line(kSetup), to_line(task()), to_line(UnitStatus())}) {
    CHECK(line.find('\n') == line.size() - 1);
  }
}

TEST_CASE("worker protocol: findings are read back") {
  const UnitFindings found = parse_findings(findings_text());
  REQUIRE(found.functions.size() == 2);
  CHECK(found.functions[0].symbol == kConv2dFunction.symbol);
  CHECK(found.functions[0].kind == DefinitionKind::function);
  CHECK(found.functions[0].calls.empty());
  CHECK(found.functions[1].file == kLaunching.file);
  CHECK(found.functions[1].line == 20);
  CHECK(found.functions[1].kind == DefinitionKind::device_kernel);
  CHECK(found.functions[1].calls == kLaunching.calls);
  CHECK(found.functions[0].result.empty());
  CHECK(found.functions[1].result == "e4 Kind|A=1");
  CHECK(found.registrations == std::vector{kKernel, kFallthrough});
  CHECK(found.inclusions == std::vector<std::string>{"/src/a folder/B.cu"});
  CHECK(parse_findings("").functions.empty());
}

TEST_CASE("worker protocol: a file whose name has two lines is no inclusion") {
  std::string text;
  append_inclusion("/src/a\nF\tx\tb\t1\t0", text);
  CHECK(text.empty());
}

TEST_CASE("worker protocol: other text is refused") {
  for (const std::string line :
       {"", "{", "[]", "null", "{}", R"({"number": -1})", R"({"number": "7"})", "\xff\xfe",
        R"({"number":1,"outcome":"finished","errors":0,"first_error":""})",
        R"({"number":1,"outcome":7,"errors":0,"first_error":""})", "worker: out of memory"}) {
    INFO(line);
    CHECK_FALSE(is_understood([&] { (void)parse_status(line); }));
    CHECK_FALSE(is_understood([&] { (void)parse_task(line); }));
    CHECK_FALSE(is_understood([&] { (void)parse_setup(line); }));
  }
  for (const std::string text :
       {"X\ta\tb\t1\n", "F\n", "F\t\tf\t1\t0\n", "F\ts\tf\t\t0\n", "F\ts\tf\t-1\t0\n",
        "F\ts\tf\t1x\t0\n", "F\ts\tf\t99999999999\t0\n", "F\ts\tf\t1\t5\n", "F\ts\tf\t1\n",
        "C\ts\t1\t0\n", "\n", "F\ts\tf", "F\ts\tf\t1\t0\nC\ts\t1\t4\n", "R\t5\tn\tk\tf\tf\t1\n",
        "R\t1\t\tk\tf\tf\t1\n", "R\t1\tn\tk\tf\t1\n"}) {
    INFO(text);
    CHECK_FALSE(is_understood([&] { (void)parse_findings(text); }));
  }
}

TEST_CASE("worker protocol: damaged messages end in an answer or an error") {
  std::mt19937 random(1);
  const auto damage = [&](std::string text) {
    text.resize(random() % (text.size() + 1));
    for (auto flips = random() % 4; flips > 0 && !text.empty(); --flips) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    return text;
  };
  UnitStatus status;
  status.outcome = UnitOutcome::done;
  for (int round = 0; round < 3000; ++round) {
    (void)is_understood([&] { (void)parse_setup(damage(to_line(kSetup))); });
    (void)is_understood([&] { (void)parse_task(damage(to_line(task()))); });
    (void)is_understood([&] { (void)parse_status(damage(to_line(status))); });
    (void)is_understood([&] { (void)parse_findings(damage(findings_text())); });
  }
  // Nesting deeper than in any message.
  CHECK_FALSE(is_understood([&] { (void)parse_task(std::string(1000000, '[')); }));
}
