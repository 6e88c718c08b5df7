#include "report/output/compilation_text.h"

#include <cstdint>

#include <fmt/format.h>

#include "report/model/json_fields.h"
#include "report/output/readable_numbers.h"

namespace optrace {

std::string compilation_facts(const nlohmann::json& compilation) {
  std::string facts;
  if (const std::uint64_t ops = count_at(compilation, "graph_ops"); ops != 0)
    facts = readable_count(ops, "op");
  if (const std::uint64_t time = count_at(compilation, "time"); time != 0)
    facts += fmt::format("{}{}", facts.empty() ? "" : ", ", readable_time(time));
  if (const std::uint64_t time = count_at(compilation, "inductor_time"); time != 0)
    facts += fmt::format("{}(Inductor {})", facts.empty() ? "" : " ", readable_time(time));
  if (const std::string cache = text_at(compilation, "cache"); !cache.empty())
    facts += fmt::format("{}cache {}", facts.empty() ? "" : ", ", cache);
  return facts;
}

}  // namespace optrace
