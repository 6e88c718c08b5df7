#include "indexer/frontend/driver.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "platform/process/interrupt.h"

using namespace optrace;

namespace {

/// A worker written as a shell script, in which `$number`, `$task` and `$result` describe the task.
class ScriptedWorker {
 public:
  explicit ScriptedWorker(const std::string& on_task) {
    std::ofstream(path()) << R"sh(#!/bin/sh
read -r setup
while read -r task; do
  number=$(printf '%s' "$task" | sed 's/.*"number":\([0-9]*\).*/\1/')
  result=$(printf '%s' "$task" | sed 's/.*"result":"\([^"]*\)".*/\1/')
  answer() { printf '{"number":%s,"outcome":"%s","errors":0,"first_error":""}\n' "$1" "$2"; }
  name=$(printf '%s' "$task" | sed 's/.*"source":"\/src\/\([^"]*\)".*/\1/')
  found() { printf 'found by %s\n' "$name" > "$result"; answer "$number" done; }
)sh" << on_task << "\ndone\n";
    std::filesystem::permissions(path(), std::filesystem::perms::owner_all);
  }

  std::filesystem::path path() const { return folder_.path() / "worker"; }

 private:
  PrivateFolder folder_;
};

struct Result {
  std::vector<std::string> done;
  std::vector<FailedUnit> failed;
};

Result drive(const std::filesystem::path& worker, const std::vector<Unit>& units, int jobs = 2) {
  Driver driver({.worker = worker, .jobs = jobs, .unit_limit = std::chrono::seconds(3)}, {});
  Result result;
  result.failed = driver.run(
      units,
      [&](std::size_t unit, const std::string& text) {
        CHECK(text == "found by " + units.at(unit).name + "\n");
        result.done.push_back(units.at(unit).name);
      },
      [](std::size_t, std::size_t) {});
  std::sort(result.done.begin(), result.done.end());
  return result;
}

std::vector<Unit> units_named(const std::vector<std::string>& names) {
  std::vector<Unit> units;
  units.reserve(names.size());
  for (const auto& name : names) {
    units.push_back({"/src/" + name, name, {}, "/pch", ""});
  }
  return units;
}

std::string what_driving_says(const std::filesystem::path& worker) {
  try {
    (void)drive(worker, units_named({"a.cpp", "b.cpp"}));
  } catch (const Error& error) {
    CHECK(error.status() == ExitStatus::failed);
    CHECK_FALSE(error.remedy().empty());
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("driver: every unit is done, by as many workers as allowed") {
  const ScriptedWorker worker("found");
  for (const int jobs : {1, 2, 8}) {
    const auto result = drive(worker.path(), units_named({"a.cpp", "b.cpp", "c.cpp"}), jobs);
    CHECK(result.failed.empty());
    CHECK(result.done == std::vector<std::string>{"a.cpp", "b.cpp", "c.cpp"});
  }
  CHECK(drive(worker.path(), {}).done.empty());
}

TEST_CASE("driver: a worker that dies is replaced, and its unit tried again without the header") {
  const ScriptedWorker worker(R"sh(case "$task" in *bad.cpp*-include-pch*|*-include-pch*bad.cpp*)
    printf 'half' > "$result"; kill -SEGV $$;; *) found;; esac)sh");
  const auto result = drive(worker.path(), units_named({"a.cpp", "bad.cpp", "c.cpp"}));
  CHECK(result.failed.empty());
  CHECK(result.done == std::vector<std::string>{"a.cpp", "bad.cpp", "c.cpp"});
}

TEST_CASE("driver: a unit that fails twice is listed with the reason, the others are done") {
  const ScriptedWorker worker(R"(case "$task" in
    *crash.cpp*) kill -KILL $$;; *hang.cpp*) sleep 60;; *leave.cpp*) exit 3;;
    *refuse.cpp*) answer "$number" 'not parsed';; *) found;; esac)");
  const auto result =
      drive(worker.path(), units_named({"crash.cpp", "hang.cpp", "leave.cpp", "refuse.cpp", "z"}));
  CHECK(result.done == std::vector<std::string>{"z"});
  REQUIRE(result.failed.size() == 4);
  CHECK(result.failed[0].name == "crash.cpp");
  CHECK(result.failed[0].reason.find("SIGKILL") != std::string::npos);
  CHECK(result.failed[1].name == "hang.cpp");
  CHECK(result.failed[1].reason == "no answer within 3 s");
  CHECK(result.failed[2].name == "leave.cpp");
  CHECK(result.failed[2].reason.find("exit status 3") != std::string::npos);
  CHECK(result.failed[3].name == "refuse.cpp");
  CHECK(result.failed[3].reason.find("failed on it") != std::string::npos);
}

TEST_CASE("driver: a unit that takes too much memory is tried again, by another worker") {
  const ScriptedWorker worker(R"(case "$task" in
    *large.cpp*-include-pch*|*-include-pch*large.cpp*) answer "$number" 'out of memory'; exit 3;;
    *huge.cpp*) answer "$number" 'out of memory'; exit 3;; *) found;; esac)");
  const auto result = drive(worker.path(), units_named({"large.cpp", "huge.cpp", "z"}), 1);
  CHECK(result.done == std::vector<std::string>{"large.cpp", "z"});
  REQUIRE(result.failed.size() == 1);
  CHECK(result.failed[0].name == "huge.cpp");
  CHECK(result.failed[0].reason.find("memory") != std::string::npos);
}

TEST_CASE("driver: a worker that never reads fails its units and does not end the command") {
  std::signal(SIGPIPE, SIG_IGN);  // As in the command.
  const PrivateFolder folder;
  std::ofstream(folder.path() / "worker") << "#!/bin/sh\nexit 0\n";
  std::filesystem::permissions(folder.path() / "worker", std::filesystem::perms::owner_all);
  const auto result = drive(folder.path() / "worker", units_named({"a.cpp", "b.cpp"}));
  CHECK(result.done.empty());
  CHECK(result.failed.size() == 2);
}

TEST_CASE("driver: what a worker should not say is an error") {
  CHECK(what_driving_says("/no/such/worker").find("/no/such/worker") != std::string::npos);
  CHECK(what_driving_says(ScriptedWorker("echo hello").path()).find("hello") != std::string::npos);
  CHECK(what_driving_says(ScriptedWorker("answer 99 done").path()).find("not assigned") !=
        std::string::npos);
}

TEST_CASE("driver: an interrupt ends the workers") {
  const PrivateFolder folder;
  const auto pid_file = (folder.path() / "pid").string();
  const ScriptedWorker worker("echo $$ > " + pid_file + ".part; mv " + pid_file + ".part " +
                              pid_file + "; sleep 60");
  {
    const InterruptGuard guard;
    Driver driver({.worker = worker.path()}, {});
    bool raised = false;
    try {
      (void)driver.run(
          units_named({"a.cpp"}), [](std::size_t, const std::string&) {},
          [&](std::size_t, std::size_t) {
            if (!raised && std::filesystem::exists(pid_file)) {
              raised = true;
              std::raise(SIGINT);
            }
          });
      FAIL("the interrupt was not seen");
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::interrupted);
    }
  }
  const InterruptGuard forgets;  // Clears the interrupt for the next test.
  pid_t pid = 0;
  std::ifstream(pid_file) >> pid;
  REQUIRE(pid > 0);
  CHECK(::kill(pid, 0) != 0);
}
