#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "src/command_line/command_line.h"
#include "src/commands/commands.h"
#include "src/terminal/command_words.h"

using namespace optrace;

namespace {

void make_program(const std::filesystem::path& path) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("the command line refuses what it does not know") {
  for (const std::string line :
       {"conv2d --device tpu", "conv2d --probes none", "conv2d --format xml", "conv2d --nonsense",
        "conv2d linear", "conv2d --timeout 0", "conv2d --trace"}) {
    CHECK_THROWS_AS(run_command_line(optrace_command(), split_words(line)), WrongUsage);
  }
}

TEST_CASE("an output folder that takes no file is found before Python starts") {
  const PrivateFolder folder;
  make_program(folder.path() / "python");
  for (const std::string option : {"--trace", "-o"}) {
    try {
      run_command_line(optrace_command(),
                       {"conv2d", option, "/proc/none/x", "--python", folder.path() / "python"});
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
      CHECK(std::string(error.what()).find("/proc/none/x") != std::string::npos);
    }
  }
}
