#include "platform/text/json_stream.h"

#include <nlohmann/json.hpp>

#include "platform/text/printable_text.h"

namespace optrace {
namespace {

std::string quoted(std::string_view text) {
  return nlohmann::json(valid_utf8(text)).dump();
}

}  // namespace

JsonStream& JsonStream::key(std::string_view name) {
  separate();
  text_ += quoted(name);
  text_ += indentation_ < 0 ? ":" : ": ";
  is_after_key_ = true;
  return *this;
}

void JsonStream::text_or_null(std::string_view name, std::string_view text) {
  key(name);
  if (text.empty())
    null();
  else
    add_text(text);
}

std::string JsonStream::text() const {
  return printable_json(text_);
}

void JsonStream::open(char bracket) {
  separate();
  text_ += bracket;
  ++depth_;
  is_first_ = true;
}

void JsonStream::close(char bracket) {
  --depth_;
  if (!is_first_) break_line();
  text_ += bracket;
  is_first_ = false;
}

void JsonStream::separate() {
  if (is_after_key_) {
    is_after_key_ = false;
    return;
  }
  if (!is_first_) text_ += ',';
  if (depth_ > 0) break_line();
  is_first_ = false;
}

void JsonStream::break_line() {
  if (indentation_ < 0) return;
  text_ += '\n';
  text_.append(depth_ * static_cast<std::size_t>(indentation_), ' ');
}

void JsonStream::add(std::string_view json) {
  separate();
  text_ += json;
}

void JsonStream::add_text(std::string_view text) {
  add(quoted(text));
}

}  // namespace optrace
