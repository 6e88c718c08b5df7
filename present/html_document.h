#pragma once

#include <span>
#include <string>
#include <string_view>

#include "present/document_style.h"

namespace optrace {

/// Returns a page without scripts, which requests nothing from other places. `title` is text;
/// `body` is HTML. The page's policy allows the style of pages, and `styles`, which are those of
/// <style> elements in `body`.
std::string html_document(std::string_view title, std::string_view body,
                          std::span<const EmbeddedStyle> styles = {});

/// Returns `text`, escaped, with a link if `url` is on GitHub.
std::string linked_text(std::string_view text, std::string_view url);

}  // namespace optrace
