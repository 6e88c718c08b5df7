#include "report/lines/compilation_text.h"

#include <cstdint>

#include <fmt/format.h>

#include "platform/text/printable_text.h"
#include "present/readable_numbers.h"
#include "report/model/json_fields.h"

namespace optrace {

std::string compilation_facts(const nlohmann::json& compilation) {
  std::string facts;
  if (const std::uint64_t ops = count_at(compilation, "graph_ops"); ops != 0)
    facts = readable_count(ops, "op");
  if (const std::uint64_t time = count_at(compilation, "time"); time != 0)
    facts += fmt::format("{}{}", facts.empty() ? "" : ", ", readable_time(time));
  if (const std::uint64_t time = count_at(compilation, "inductor_time"); time != 0) {
    const std::uint64_t compilers = count_at(compilation, "compiler_time");
    facts += fmt::format("{}(Inductor {}{})", facts.empty() ? "" : " ", readable_time(time),
                         compilers == 0 ? "" : ", compilers " + readable_time(compilers));
  }
  if (const std::string cache = text_at(compilation, "cache"); !cache.empty())
    facts += fmt::format("{}cache {}", facts.empty() ? "" : ", ", cache);
  return facts;
}

std::vector<std::string> pairs_not_fused(const nlohmann::json& graph) {
  std::vector<std::string> pairs;
  for (const nlohmann::json& pair : list_at(graph, "not_fused")) {
    if (!pair.is_object() || pair.contains("extern")) continue;
    const std::string reason = text_at(pair, "reason");
    pairs.push_back(
        printable(fmt::format("{} with {}{}", text_at(pair, "producer"), text_at(pair, "consumer"),
                              reason.empty() ? ", Inductor records no reason" : ": " + reason)));
  }
  return pairs;
}

}  // namespace optrace
