#include "src/terminal/editor.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "src/terminal/command_words.h"

using namespace optrace;
using Words = std::vector<std::string>;

TEST_CASE("an editor's command line is split as a shell would", "[editor]") {
  CHECK(split_words("vim") == Words{"vim"});
  CHECK(split_words("  code   --wait\t") == Words{"code", "--wait"});
  CHECK(split_words(R"("/opt/my editor/vim" -u 'a b' c\ d "e\"f" "")") ==
        Words{"/opt/my editor/vim", "-u", "a b", "c d", "e\"f", ""});
  // Nothing is expanded or run.
  CHECK(split_words("vim $HOME `id` $(id) *; rm") ==
        Words{"vim", "$HOME", "`id`", "$(id)", "*;", "rm"});
  CHECK(split_words("").empty());
  CHECK_THROWS_AS(split_words("vim 'open"), Error);
  CHECK_THROWS_AS(split_words("vim \"open"), Error);
}

TEST_CASE("known editors are told the line", "[editor]") {
  const auto command = [](const std::string& editor) {
    return editor_command(editor, "/src/a b.cpp", 7);
  };
  CHECK(command("vim").arguments == Words{"vim", "+7", "/src/a b.cpp"});
  CHECK(command("/usr/bin/nvim -R").arguments ==
        Words{"/usr/bin/nvim", "-R", "+7", "/src/a b.cpp"});
  CHECK(command("emacsclient -t").arguments == Words{"emacsclient", "-t", "+7", "/src/a b.cpp"});
  CHECK(command("nano").arguments == Words{"nano", "+7", "/src/a b.cpp"});
  CHECK(command("code --wait").arguments == Words{"code", "--wait", "--goto", "/src/a b.cpp:7"});
  CHECK(command("cursor").arguments == Words{"cursor", "--goto", "/src/a b.cpp:7"});
  CHECK(command("hx").arguments == Words{"hx", "/src/a b.cpp:7"});
  CHECK(command("subl").at_line);
}

TEST_CASE("others get the file only", "[editor]") {
  const EditorCommand command = editor_command("ed -s", "/src/a.cpp", 7);
  CHECK(command.arguments == Words{"ed", "-s", "/src/a.cpp"});
  CHECK_FALSE(command.at_line);
  CHECK_THROWS_AS(editor_command("   ", "/src/a.cpp", 7), Error);
  CHECK_THROWS_AS(editor_command("''", "/src/a.cpp", 7), Error);
}
