#include "present/file_links.h"

#include <algorithm>

namespace optrace {
namespace {

// A report that was read from a file has any text as a URL.
std::string safe_url(const std::string& url) {
  const bool safe = url.starts_with("https://") &&
                    std::ranges::all_of(url, [](char c) { return c > ' ' && c < 0x7F; });
  return safe ? url : std::string();
}

}  // namespace

std::string FileLinks::url(const FilePlace& place) const {
  if (format_.empty()) return {};
  std::string upstream = safe_url(place.url);
  const bool native = !upstream.empty() && !place.file.ends_with(".py");
  if (native || !find_ || place.file.empty()) return upstream;
  auto known = found_.find(place.file);
  if (known == found_.end()) known = found_.emplace(place.file, find_(place.file)).first;
  return known->second.empty() ? upstream : format_.url(known->second, place.line, place.column);
}

}  // namespace optrace
