#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include <catch2/catch.hpp>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "platform/files/output_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"
#include "platform/process/child_process.h"
#include "platform/text/printable_text.h"
#include "tests/unit/environment_variable.h"

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

TEST_CASE("an output file follows links, also where its folder goes meanwhile") {
  const PrivateFolder folder;
  const std::filesystem::path first = folder.path() / "first";
  const std::filesystem::path link = folder.path() / "link";
  std::filesystem::create_directory(first);
  std::filesystem::create_symlink("first/next", link);
  std::filesystem::create_symlink(first / "file", first / "next");
  OutputFile file(link);
  file.write("text");
  std::filesystem::rename(first, folder.path() / "moved");
  std::filesystem::create_directory(first);
  file.commit();
  CHECK(std::filesystem::is_empty(first));
  CHECK(std::filesystem::file_size(folder.path() / "moved/file") == 4);
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  CHECK_THROWS_AS(OutputFile(folder.path() / "loop"), Error);
  if (::geteuid() != 0) return;  // Only root can make the files of another user.
  std::filesystem::create_directory(folder.path() / "shared");
  std::filesystem::permissions(folder.path() / "shared",
                               std::filesystem::perms::all | std::filesystem::perms::sticky_bit);
  const std::filesystem::path theirs = folder.path() / "shared/link";
  std::filesystem::create_symlink(first / "of root", theirs);
  OutputFile(theirs).commit();
  CHECK(std::filesystem::exists(first / "of root"));
  REQUIRE(::lchown(theirs.c_str(), 65534, 65534) == 0);
  CHECK_THROWS_AS(OutputFile(theirs), Error);
  const std::filesystem::path pipe = folder.path() / "shared/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0666) == 0);
  CHECK_NOTHROW(OutputFile(pipe));
  REQUIRE(::lchown(pipe.c_str(), 65534, 65534) == 0);
  CHECK_THROWS_AS(OutputFile(pipe), Error);
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

namespace {

bool all_zeros(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

TEST_CASE("a file that becomes shorter while it is mapped or read ends in zeros") {
  const TruncationGuard guard;
  const PrivateFolder folder;
  const auto path = folder.path() / "file";
  constexpr std::size_t kSize = 1 << 20;
  std::ofstream(path) << std::string(kSize, 'x');
  for (const auto trust : {MappedFile::Trust::by_owner, MappedFile::Trust::none}) {
    std::filesystem::resize_file(path, 0);
    std::ofstream(path) << std::string(kSize, 'x');
    MappedFile opened(path, trust);
    CHECK(opened.part(0, 1)[0] == std::byte{'x'});
    CHECK(!opened.was_cut());
    std::filesystem::resize_file(path, 10);
    const MappedFile file = std::move(opened);
    CHECK(file.size() == kSize);
    CHECK(file.part(0, 10)[9] == std::byte{'x'});
    CHECK(all_zeros(file.part(kSize / 2, kSize / 2)));
    CHECK(file.bytes().size() == kSize);
    CHECK(file.was_cut());
    file.release_pages();
    CHECK(all_zeros(file.part(kSize / 2, kSize / 2)));
    CHECK(file.part(kSize, 1).empty());
    CHECK(file.part(~std::uint64_t{0}, 2).empty());
  }
}

TEST_CASE("what was read of a file stays as it was, and holes take no memory") {
  const PrivateFolder folder;
  const auto path = folder.path() / "file";
  std::ofstream(path) << "before";
  constexpr std::uintmax_t kLarge = std::uintmax_t{1} << 40;
  std::filesystem::resize_file(path, kLarge);
  const MappedFile file(path, MappedFile::Trust::none);
  CHECK(file.part(0, 1)[0] == std::byte{'b'});
  std::ofstream(path, std::ios::in) << "after!";
  CHECK(file.part(0, 1)[0] == std::byte{'b'});
  CHECK(all_zeros(file.part(kLarge / 2, 1 << 20)));
  CHECK(file.size() == kLarge);
  CHECK(!file.was_cut());
}

TEST_CASE("a file that opens but can't be read has no content") {
  CHECK_FALSE(read_file(std::filesystem::temp_directory_path()).has_value());
  CHECK_FALSE(read_file("/proc/self/mem").has_value());  // Nothing is mapped at its beginning.
  CHECK(read_file("/dev/null") == "");
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

TEST_CASE("text that would drive a terminal or a CI runner is shown as escapes") {
  using optrace::printable, optrace::printable_lines, optrace::printable_output;
  CHECK(printable("a\n\tb\r\x1b[31m\x7f") == "a\\x0a\\x09b\\x0d\\x1b[31m\\x7f");
  CHECK(printable("\xc2\x9b \xc2\xad \xe2\x80\xae \xe2\x81\xa0 \xf3\xa0\x81\x81") ==
        "\\x9b \\xad \\u202e \\u2060 \\U000e0041");
  CHECK(printable("\xff\xed\xb2\x80\xef\xbf\xbe\xf0\x9f\xbf\xbf") ==
        "\\xff\\udc80\\ufffe\\U0001ffff");
  CHECK(printable("\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80 ::x") ==
        "\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80 ::x");
  CHECK(printable_lines("::a\n \t::b ::c ##[d\r\ne\x1b[1m") ==
        "\\x3a:a\n \t\\x3a:b ::c \\x23#[d\\x0d\ne\\x1b[1m");
  const std::string own = "\x1b[1;36mx\x1b[0m \x1b]8;;https://a/b\x1b\\y\x1b]8;;\x1b\\\n";
  CHECK(printable_output(own) == own);
  CHECK(printable_output("\x1b[2J\x1b]8;;/no/scheme\x1b\\\x1b]0;t\x07") ==
        "\\x1b[2J\\x1b]8;;/no/scheme\\x1b\\\\x1b]0;t\\x07");
  const std::string editor = "\x1b]8;;vscode://file/a:1\x1b\\y\x1b]8;;\x1b\\\n";
  CHECK(printable_output(editor) == editor);
  for (const std::string text : {"\xff::a\n::b##[\x1b[1m\xe2\x80\xae", "##[##[", "::::"}) {
    CHECK(printable(printable(text)) == printable(text));
    CHECK(printable_lines(printable_lines(text)) == printable_lines(text));
    CHECK(printable_output(printable_output(text)) == printable_output(text));
  }
  CHECK(optrace::printable_json("\"\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81##[\x7f\xc3\xa9\"") ==
        "\"\\u009b\\u202e\\udb40\\udc41\\u0023#[\\u007f\xc3\xa9\"");
}

TEST_CASE("why nothing can be cached is told with the remedy") {
  using Catch::Matchers::StartsWith;
  using test::EnvironmentVariable;
  const PrivateFolder folder;
  const auto problem = [](const std::string& cache) {
    const EnvironmentVariable own("OPTRACE_CACHE_DIR", cache);
    return cache_problem();
  };
  const EnvironmentVariable xdg("XDG_CACHE_HOME", std::nullopt);
  {
    const EnvironmentVariable home("HOME", std::nullopt);
    CHECK(problem("") ==
          "HOME is not set. Set OPTRACE_CACHE_DIR to a folder that only you can write to.");
  }
  {
    const std::string missing = folder.path() / "nobody";
    const EnvironmentVariable home("HOME", missing);
    CHECK_THAT(problem(""), StartsWith("HOME is " + missing + ", which does not exist. Set "));
    CHECK_FALSE(std::filesystem::exists(missing));
  }
  CHECK_THAT(problem("/proc/cache"), StartsWith("/proc/cache can't be created: No such file"));
  CHECK_THAT(problem("/dev/null"), StartsWith("/dev/null is not a folder. Set "));
  const std::string shared = folder.path() / "shared";
  std::filesystem::create_directory(shared);
  std::filesystem::permissions(shared, std::filesystem::perms::all);
  CHECK_THAT(problem(shared), StartsWith("everybody may write to " + shared + ". Set "));
  std::filesystem::permissions(shared,
                               std::filesystem::perms::all | std::filesystem::perms::sticky_bit);
  CHECK_THAT(problem(shared), StartsWith("others may write to " + shared + ". Set "));
  CHECK(problem(shared + "/own").empty());
  CHECK(problem(folder.path() / "new").empty());
  {
    // With a umask of 0, others could write to what the umask decides.
    const std::string seen = folder.path() / "seen";
    REQUIRE(::mkdir(seen.c_str(), 0755) == 0);
    const EnvironmentVariable cache("OPTRACE_CACHE_DIR", seen);
    const mode_t before = ::umask(0);
    const std::filesystem::path plans = cache_subfolder("plans");
    ::umask(before);
    CHECK(plans == seen + "/plans");
    CHECK(std::filesystem::status(plans).permissions() == std::filesystem::perms::owner_all);
    std::filesystem::permissions(plans, std::filesystem::perms::all);
    CHECK(cache_subfolder("plans").empty());
  }
  if (::geteuid() != 0) return;  // Only root can make the folder of another user.
  const std::string theirs = folder.path() / "theirs";
  std::filesystem::create_directories(theirs + "/cache");
  REQUIRE(::chown(theirs.c_str(), 65534, 65534) == 0);
  for (const char* const below : {"/cache", "/new", "/new/cache"})
    CHECK_THAT(problem(theirs + below), StartsWith(theirs + " belongs to another user. Set "));
  CHECK_FALSE(std::filesystem::exists(theirs + "/new"));
  std::filesystem::create_symlink(folder.path() / "new", theirs + "/link");
  CHECK_THAT(problem(theirs + "/link"), StartsWith(theirs + " belongs to another user. Set "));
  const EnvironmentVariable temporary("TMPDIR", theirs);
  CHECK_THROWS_AS(PrivateFolder(), Error);
}

TEST_CASE("the folders of killed processes are removed") {
  const PrivateFolder folder;
  const test::EnvironmentVariable temporary("TMPDIR", folder.path());
  const std::filesystem::path similar = folder.path() / "optrace-backup";
  std::filesystem::create_directory(similar);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const PrivateFolder left;
    std::ofstream(left.path() / "file") << "text";
    (void)!::write(ends[1], left.path().c_str(), left.path().string().size());
    while (true) ::pause();
  }
  std::string text(4096, '\0');
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  REQUIRE(size > 0);
  const std::filesystem::path left = text.substr(0, static_cast<std::size_t>(size));
  {
    const PrivateFolder next;
  }
  CHECK(std::filesystem::exists(left / "file"));  // Its process lives.
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(std::filesystem::exists(left / "file"));
  {
    const PrivateFolder next;
  }
  CHECK_FALSE(std::filesystem::exists(left));
  CHECK(std::filesystem::exists(similar));
  ::close(ends[0]);
  ::close(ends[1]);
}
