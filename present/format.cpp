#include "present/format.h"

#include <cstddef>

namespace optrace {

std::string list_of(const std::vector<FormatName>& formats) {
  std::string list;
  for (std::size_t i = 0; i < formats.size(); ++i) {
    const FormatName& format = formats[i];
    const bool is_last = i + 1 == formats.size();
    list += format.name;
    if (!is_last && !format.help.empty() && formats[i + 1].help == format.help) {
      list += " or ";
      continue;
    }
    if (!format.help.empty()) list.append(" (").append(format.help).append(")");
    if (!is_last) list += i + 2 == formats.size() ? " or " : ", ";
  }
  return list;
}

}  // namespace optrace
