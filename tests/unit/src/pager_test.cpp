#include "src/terminal/pager.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"

using optrace::pager_command;
using optrace::rows_of;
using optrace::without_links;
using Words = std::vector<std::string>;

TEST_CASE("the pager is the user's command line", "[pager]") {
  CHECK(pager_command("less") == Words{"less"});
  CHECK(pager_command("less -S '+/a b'") == Words{"less", "-S", "+/a b"});
  CHECK(pager_command("head -3 | tee x") == Words{"/bin/sh", "-c", "head -3 | tee x"});
  CHECK_FALSE(pager_command(""));
  CHECK_FALSE(pager_command("cat"));
  CHECK(pager_command("cat -n") == Words{"cat", "-n"});
  CHECK_THROWS_AS(pager_command("less 'x"), optrace::Error);
}

TEST_CASE("rows on a terminal are counted with wrapped lines", "[pager]") {
  CHECK(rows_of("", 80) == 0);
  CHECK(rows_of("a\nb\n", 80) == 2);
  CHECK(rows_of("a\nb", 80) == 2);
  CHECK(rows_of(std::string(80, 'x') + "\n", 80) == 1);
  CHECK(rows_of(std::string(81, 'x') + "\n", 80) == 2);
  CHECK(rows_of("××××\n", 4) == 1);
  CHECK(rows_of("\x1b[1mabcd\x1b[0m\n", 4) == 1);
  CHECK(rows_of("\x1b]8;;https://x/yz\x1b\\abcd\x1b]8;;\x1b\\\n", 4) == 1);
  CHECK(rows_of("\x1b]8;;unclosed", 4) == 0);
  CHECK(rows_of("\x1b[unclosed", 4) == 0);
}

TEST_CASE("links are removed for a pager that does not know them", "[pager]") {
  CHECK(without_links("a \x1b]8;;https://x\x1b\\b\x1b]8;;\x1b\\ \x1b[1mc\x1b[0m") ==
        "a b \x1b[1mc\x1b[0m");
  CHECK(without_links("plain").empty() == false);
  CHECK(without_links("a\x1b]8;;unclosed") == "a");
}
