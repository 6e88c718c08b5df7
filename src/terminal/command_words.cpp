#include "src/terminal/command_words.h"

#include <cstddef>
#include <utility>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/text/printable_text.h"

namespace optrace {

std::vector<std::string> split_words(std::string_view command_line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;  // An empty pair of quotes is a word.
  char quote = '\0';
  for (std::size_t i = 0; i < command_line.size(); ++i) {
    const char c = command_line[i];
    const bool has_next = i + 1 < command_line.size();
    if (quote == '\'') {
      if (c == quote)
        quote = '\0';
      else
        word += c;
    } else if (quote == '"') {
      if (c == quote)
        quote = '\0';
      else if (c == '\\' && has_next &&
               std::string_view("$`\"\\").find(command_line[i + 1]) != std::string_view::npos)
        word += command_line[++i];
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == '\\' && has_next) {
      word += command_line[++i];
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word) words.push_back(std::move(word));
      word.clear();
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != '\0') {
    throw Error(
        ExitStatus::usage,
        fmt::format("the command line has a quote that is not closed: {}", printable(command_line)),
        "Close it, or put a backslash before it.");
  }
  if (in_word) words.push_back(std::move(word));
  return words;
}

}  // namespace optrace
