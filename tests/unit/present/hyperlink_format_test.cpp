#include "present/hyperlink_format.h"

#include <string>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "platform/error.h"
#include "present/file_links.h"
#include "tests/unit/environment_variable.h"

using namespace optrace;
using Catch::Contains;

namespace {

std::string url(const std::string& format, std::uint32_t line = 7, std::uint32_t column = 0) {
  return HyperlinkFormat(format).url("/a/b c.py", line, column);
}

}  // namespace

TEST_CASE("a link's format is an alias or a pattern, as ripgrep has it", "[hyperlink]") {
  char host[256] = {};
  REQUIRE(::gethostname(host, sizeof host - 1) == 0);
  CHECK(url("file") == "file://" + std::string(host) + "/a/b%20c.py");
  CHECK(url("default") == url("file"));
  CHECK(url("vscode") == "vscode://file/a/b%20c.py:7:1");
  CHECK(url("vscode", 7, 3) == "vscode://file/a/b%20c.py:7:3");
  CHECK(url("grep+", 0) == "grep+:///a/b%20c.py:1");
  CHECK(url("textmate") == "txmt://open?url=file:///a/b%20c.py&line=7&column=1");
  CHECK(url("x-y.z+1:{{{path}}}#{line}") == "x-y.z+1:{/a/b%20c.py}#7");
  CHECK(HyperlinkFormat("none").empty());
  CHECK(HyperlinkFormat("").empty());
  {
    const test::EnvironmentVariable none("WSL_DISTRO_NAME", std::nullopt);
    CHECK(url("file://{wslprefix}{path}") == "file:///a/b%20c.py");
  }
  const test::EnvironmentVariable wsl("WSL_DISTRO_NAME", "Debian");
  CHECK(url("file://{wslprefix}{path}") == "file://wsl$/Debian/a/b%20c.py");
  for (const HyperlinkAlias& alias : hyperlink_aliases())
    CHECK_NOTHROW(HyperlinkFormat(alias.name));
}

TEST_CASE("a wrong format is refused with the reason", "[hyperlink]") {
  const auto refused = [](const std::string& format, const std::string& reason) {
    CHECK_THROWS_WITH(HyperlinkFormat(format), Contains(reason));
  };
  refused("vim", "lacks the variable {path}");
  refused("file://{host}", "lacks the variable {path}");
  refused("file://{path}:{column}", "needs the variable {line}");
  refused("{path}", "scheme");
  refused("/x{path}", "scheme");
  refused("a b:{path}", "scheme");
  refused("file://{path}{nonsense}", "no variable 'nonsense'");
  refused("file://{path}{\x1b[2J}", "\\x1b[2J");
  refused("file://{path", "no '}'");
  refused("file://{path}}", "no '{'");
  refused("file://{path}#\x1b]", "printable ASCII");
}

TEST_CASE("paths are percent-encoded byte for byte", "[hyperlink]") {
  CHECK(percent_encoded("/A-z_0.9~:") == "/A-z_0.9~:");
  CHECK(percent_encoded("\xc3\xa9?#%\x1b\\\"<") == "%C3%A9%3F%23%25%1B%5C%22%3C");
}

TEST_CASE("C++ is linked upstream, other files where they are", "[hyperlink]") {
  int searches = 0;
  const FileLinks links(HyperlinkFormat("vscode"), [&](const std::string& file) {
    ++searches;
    return std::filesystem::path(file == "gone.py" ? "" : "/here/" + file);
  });
  const std::string upstream = "https://github.com/x#L1";
  CHECK(links.url({.file = "a.cpp", .line = 1, .url = upstream}) == upstream);
  CHECK(links.url({.file = "a.py", .line = 1, .url = upstream}) == "vscode://file/here/a.py:1:1");
  CHECK(links.url({.file = "a.py", .line = 2}) == "vscode://file/here/a.py:2:1");
  CHECK(links.url({.file = "build/x.cpp", .line = 3}) == "vscode://file/here/build/x.cpp:3:1");
  CHECK(searches == 2);
  CHECK(links.url({.file = "gone.py", .line = 1, .url = upstream}) == upstream);
  CHECK(links.url({.file = "gone.py", .line = 1}).empty());
  for (const std::string bad : {"http://x", "javascript:x", "https://x y", "https://x\x1b"})
    CHECK(links.url({.file = "a.cpp", .line = 1, .url = bad}) != bad);
  CHECK(FileLinks(HyperlinkFormat("none")).url({.file = "a", .line = 1, .url = upstream}).empty());
}
