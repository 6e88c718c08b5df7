#include "tracer/launch/op_tracer.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "platform/interrupt.h"
#include "platform/private_folder.h"

using namespace optrace;

namespace {

/// A short shell script in place of Python. Its descriptor 3 is the socket to the command.
class FakePython {
 public:
  explicit FakePython(const std::string& lines) {
    request_.python = folder_.path() / "python";
    request_.python_reason = "--python";
    request_.call.op = "conv2d";
    request_.patience = std::chrono::milliseconds(300);
    std::ofstream(request_.python) << "#!/bin/sh\n" << lines << "\n";
    std::filesystem::permissions(request_.python, std::filesystem::perms::owner_all);
  }

  /// Returns the error that tracing with this program throws. Every such program causes one.
  Error error() const {
    const InterruptGuard guard;
    try {
      launch(request_, [](std::string_view) {});
    } catch (const Error& error) {
      return error;
    }
    FAIL("no error");
    return {ExitStatus::done, "", ""};
  }

  const std::filesystem::path& path() const { return request_.python; }

 private:
  PrivateFolder folder_;
  LaunchRequest request_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string python_message(const std::string& version, const std::string& torch) {
  return R"(echo '{"message": "python", "implementation": "cpython", "version": )" + version +
         R"(, "executable": "x", "torch": )" + torch + R"(, "modules": []}' >&3)";
}

}  // namespace

TEST_CASE("a program that is no Python is named, with how it ended and what it said") {
  const FakePython fake("echo 'not a snake' >&2; exit 5");
  const Error error = fake.error();
  CHECK(error.status() == ExitStatus::usage);
  CHECK(has(error.what(), fake.path().string()));
  CHECK(has(error.what(), "exit status 5"));
  CHECK(has(error.remedy(), "not a snake"));
}

TEST_CASE("a Python that is too old is told its version") {
  const Error error = FakePython(python_message("[3, 8, 20]", "null")).error();
  CHECK(error.status() == ExitStatus::usage);
  CHECK(has(error.what(), "cpython 3.8"));
}

TEST_CASE("a Python without torch gets the command that installs it") {
  const FakePython fake(python_message("[3, 11, 7]", "null"));
  const Error error = fake.error();
  CHECK(error.status() == ExitStatus::usage);
  CHECK(has(error.what(), "no torch in"));
  CHECK(has(error.remedy(), fake.path().string() + " -m pip install torch"));
}

TEST_CASE("a torch without its libraries is no release wheel") {
  const Error error = FakePython(python_message("[3, 11, 7]", R"("/nowhere/torch")")).error();
  CHECK(error.status() == ExitStatus::usage);
  CHECK(has(error.what(), "/nowhere/torch/lib/libtorch_cpu.so"));
}

TEST_CASE("a target that dies is told with its signal and its last words") {
  const FakePython fake(R"(echo '{"message": "problem"' | head -c 5 >&3
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "line $i"; done; kill -SEGV $$)");
  const Error error = fake.error();
  CHECK(has(error.what(), "SIGSEGV"));
  CHECK(has(error.remedy(), "line 12"));
  CHECK_FALSE(has(error.remedy(), "line 2\n"));
}

TEST_CASE("a target that hangs is given up") {
  const Error error = FakePython("echo stuck; sleep 1000").error();
  CHECK(error.status() == ExitStatus::failed);
  CHECK(has(error.what(), "did not respond"));
  CHECK(has(error.remedy(), "stuck"));
}

TEST_CASE("a target's own error is shown without what drives a terminal") {
  const Error error =
      FakePython(R"(printf '{"message": "problem", "status": 2, "what": "\\u001b[31mred", )"
                 R"("remedy": "do"}\n' >&3)")
          .error();
  CHECK(error.status() == ExitStatus::usage);
  CHECK(std::string(error.what()) == "\\x1b[31mred");
  CHECK(error.remedy() == "do");
}

TEST_CASE("a target that speaks out of turn or with wrong types is refused") {
  for (const std::string line :
       {R"({"message": "recorded"})", R"({"message": "python"})", R"({"message": "problem"})",
        R"({"message": "python", "version": [3, "11", 7], "implementation": "cpython"})",
        R"({"message": "python", "version": [3, 11, 7], "implementation": 1})"}) {
    CHECK(FakePython("echo '" + line + "' >&3").error().status() == ExitStatus::failed);
  }
}

TEST_CASE("a shape is sizes with x between them, for a named tensor or the first") {
  CHECK(parse_shape("2x3x4").sizes == std::vector<std::int64_t>{2, 3, 4});
  CHECK(parse_shape("2x3x4").tensor.empty());
  CHECK(parse_shape("7").sizes == std::vector<std::int64_t>{7});
  CHECK(parse_shape("0x3").sizes == std::vector<std::int64_t>{0, 3});
  CHECK(parse_shape("weight=8x3").tensor == "weight");
  CHECK(parse_shape("weight=8x3").sizes == std::vector<std::int64_t>{8, 3});
  CHECK(parse_shape("scalar").sizes.empty());
}

TEST_CASE("what is no shape is refused with how to write one") {
  for (const std::string text : {"", "x", "2x", "x2", "2xx3", "-1", "+1", "2,3", "(2, 3)", "2.5",
                                 "=2x3", "1w=2", "w=", "2 x3", "99999999999999999999",
                                 "1000000000x1000000000", "a=b=2", "0x10000000000000"}) {
    INFO(text);
    try {
      parse_shape(text);
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
      CHECK(has(error.what(), "--shape: '" + text + "'"));
      CHECK(has(error.remedy(), "4x3x8x8"));
    }
  }
  std::string many = "1";
  for (int i = 0; i < 64; ++i) many += "x1";
  CHECK_THROWS_AS(parse_shape(many), Error);
}

TEST_CASE("a dtype is a name, for a named tensor or all") {
  CHECK(parse_dtype("float16").dtype == "float16");
  CHECK(parse_dtype("float16").tensor.empty());
  CHECK(parse_dtype("torch.float16").dtype == "float16");
  CHECK(parse_dtype("index=int32").tensor == "index");
  CHECK(parse_dtype("index=int32").dtype == "int32");
  for (const std::string text : {"", "=", "x=", "=int32", "a b", "__import__('os')", "torch."}) {
    INFO(text);
    try {
      parse_dtype(text);
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
      CHECK(has(error.what(), "--dtype: '" + text + "'"));
    }
  }
}

TEST_CASE("no option's text breaks the reader of shapes and dtypes") {
  std::mt19937 random(11);
  const std::string letters = "0123456789xX=w-+. scalrtoh.";
  for (unsigned turn = 0; turn < 20000; ++turn) {
    std::string text;
    for (auto size = random() % 30; size > 0; --size) text += letters[random() % letters.size()];
    try {
      const TensorShape shape = parse_shape(text);
      CHECK(shape.sizes.size() <= 64);
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
    }
    try {
      const TensorType type = parse_dtype(text);
      CHECK_FALSE(type.dtype.empty());
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
    }
  }
}
