#pragma once

#include <string_view>

namespace optrace {

/// A style sheet from present/ that the build puts into the program.
struct EmbeddedStyle {
  std::string_view css;
  std::string_view hash;  ///< Base64 of its SHA-256, for a Content-Security-Policy.
};

extern const EmbeddedStyle kDocumentStyle;  ///< Of pages.
extern const EmbeddedStyle kLayerMapStyle;  ///< Of the map of layers, in a picture or on a page.

}  // namespace optrace
