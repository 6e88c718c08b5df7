#include "present/html_document.h"

#include <fmt/format.h>

#include "present/markup_text.h"

namespace optrace {

std::string html_document(std::string_view title, std::string_view body,
                          std::span<const EmbeddedStyle> styles) {
  std::string allowed = fmt::format("'sha256-{}'", kDocumentStyle.hash);
  for (const EmbeddedStyle& style : styles) allowed += fmt::format(" 'sha256-{}'", style.hash);
  return fmt::format(
      "<!DOCTYPE html>\n"
      "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      allowed, markup_text(title), kDocumentStyle.css, body);
}

std::string linked_text(std::string_view text, std::string_view url) {
  if (!url.starts_with("https://github.com/")) return markup_text(text);
  return fmt::format("<a href=\"{}\">{}</a>", markup_text(url), markup_text(text));
}

}  // namespace optrace
