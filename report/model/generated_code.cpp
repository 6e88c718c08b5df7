#include "report/model/generated_code.h"

#include <iterator>
#include <limits>
#include <utility>

#include "report/model/json_fields.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

std::optional<ProgramLine> line_in(const Json& place) {
  const std::uint64_t line = count_at(place, "line");
  std::string file = text_at(place, "file");
  if (file.empty() || line == 0 || line > std::numeric_limits<std::uint32_t>::max())
    return std::nullopt;
  return ProgramLine{std::move(file), static_cast<std::uint32_t>(line)};
}

}  // namespace

GeneratedCode::GeneratedCode(const Json& meta) {
  for (const Json& generated : list_at(meta, "generated_code")) {
    for (const Json& kernel : list_at(generated, "kernels")) {
      const std::string name = text_at(kernel, "name");
      if (!name.empty()) kernels_.emplace(text_at(kernel, "library"), name);
    }
    Origins origins;
    for (const Json& call : list_at(generated, "calls"))
      origins[count_at(call, "line")] = line_in(object_at(call, "origin"));
    if (std::string file = text_at(generated, "file"); !file.empty())
      origins_[std::move(file)] = std::move(origins);
  }
}

std::string_view GeneratedCode::kernel_of(const std::string& library) const {
  const auto found = kernels_.find(library);
  return found == kernels_.end() ? std::string_view() : found->second;
}

std::optional<ProgramLine> GeneratedCode::origin_of(const std::string& file,
                                                    std::uint32_t line) const {
  const auto generated = origins_.find(file);
  if (generated == origins_.end()) return std::nullopt;
  const auto after = generated->second.upper_bound(line);
  return after == generated->second.begin() ? std::nullopt : std::prev(after)->second;
}

}  // namespace optrace
