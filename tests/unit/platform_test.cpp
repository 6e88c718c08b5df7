#include <csignal>
#include <fstream>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "platform/child_process.h"
#include "platform/error.h"
#include "platform/mapped_file.h"
#include "platform/output_file.h"
#include "platform/private_folder.h"

using namespace optrace;

TEST_CASE("an output file appears only when committed") {
  const PrivateFolder folder;
  const auto path = folder.path() / "report.json";
  {
    OutputFile file(path);
    file.write("half");
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  OutputFile file(path);
  file.write("whole");
  file.commit();
  std::string text;
  std::getline(std::ifstream(path) >> std::ws, text);
  CHECK(text == "whole");
  CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms::others_all) ==
        std::filesystem::perms::none);
}

TEST_CASE("an output file names the folder that is not there") {
  const PrivateFolder folder;
  CHECK_THROWS_AS(OutputFile(folder.path() / "absent" / "x"), Error);
  CHECK_THROWS_AS(OutputFile(folder.path()), Error);
}

TEST_CASE("only a regular file with something in it is mapped") {
  const PrivateFolder folder;
  CHECK_THROWS_AS(MappedFile(folder.path()), Error);
  CHECK_THROWS_AS(MappedFile(folder.path() / "absent"), Error);
  std::ofstream(folder.path() / "empty").close();
  CHECK_THROWS_AS(MappedFile(folder.path() / "empty"), Error);
  std::ofstream(folder.path() / "two") << "ab";
  CHECK(MappedFile(folder.path() / "two").bytes().size() == 2);
}

TEST_CASE("a child's end is told as it was") {
  ChildProcess fails({.arguments = {"sh", "-c", "exit 7"}});
  CHECK(describe_wait_status(fails.wait()) == "exit status 7");
  ChildProcess dies({.arguments = {"sh", "-c", "kill -SEGV $$"}});
  CHECK(describe_wait_status(dies.wait()).find("SIGSEGV") != std::string::npos);
  CHECK_THROWS_AS(ChildProcess({.arguments = {"no-such-program-of-optrace"}}), Error);
}

TEST_CASE("a child does not outlive its object") {
  pid_t id = 0;
  {
    const ChildProcess sleeper({.arguments = {"sleep", "1000"}});
    id = sleeper.id();
  }
  CHECK(::kill(id, 0) != 0);
}
