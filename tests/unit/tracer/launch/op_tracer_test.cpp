#include "tracer/launch/op_tracer.h"

#include <chrono>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "platform/process/interrupt.h"

using namespace optrace;

namespace {

/// A short shell script in place of Python. Its descriptor 3 is the socket to the command.
class FakePython {
 public:
  explicit FakePython(const std::string& lines) {
    request_.python = folder_.path() / "python";
    request_.python_reason = "--python";
    request_.call.op = "conv2d";
    request_.timeout = std::chrono::milliseconds(300);
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
