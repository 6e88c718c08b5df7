#include "report/compare/fused_line_changes.h"

#include <map>
#include <set>
#include <utility>

#include "report/compiled/fused_kernels.h"
#include "report/summary/user_lines.h"

namespace optrace {
namespace {

using FileLine = std::pair<std::string, std::uint64_t>;
using Names = std::set<std::string>;

std::map<FileLine, Names> names_by_line(const Report& report,
                                        const std::vector<FusedKernel>& kernels) {
  std::map<FileLine, Names> names;
  for (const UserLine& line : user_lines(report))
    if (!line.file.empty())
      for (const auto& [name, time] : line.ops) names[{line.file, line.line}].insert(name);
  for (const FusedKernel& kernel : kernels)
    for (const FusedLine& line : kernel.lines)
      if (!line.file.empty()) names[{line.file, line.line}].insert(kernel.name);
  return names;
}

bool has_one_of(const Names& names, const std::vector<FusedKernel>& kernels) {
  for (const FusedKernel& kernel : kernels)
    if (names.contains(kernel.name)) return true;
  return false;
}

}  // namespace

std::vector<FusedLineChange> fused_line_changes(const Report& first, const Report& second) {
  const std::vector<FusedKernel> before = fused_kernels(first);
  const std::vector<FusedKernel> after = fused_kernels(second);
  std::vector<FusedLineChange> changes;
  if (before.empty() && after.empty()) return changes;
  std::map<FileLine, std::pair<Names, Names>> lines;
  for (auto& [place, names] : names_by_line(first, before)) lines[place].first = std::move(names);
  for (auto& [place, names] : names_by_line(second, after)) lines[place].second = std::move(names);
  for (const auto& [place, names] : lines) {
    if (names.first == names.second) continue;
    if (!has_one_of(names.first, before) && !has_one_of(names.second, after)) continue;
    changes.push_back({place.first,
                       place.second,
                       {names.first.begin(), names.first.end()},
                       {names.second.begin(), names.second.end()}});
  }
  return changes;
}

}  // namespace optrace
