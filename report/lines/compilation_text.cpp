#include "report/lines/compilation_text.h"

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "present/readable_numbers.h"

namespace optrace {
namespace {

void append_times(std::string& facts, const CompiledGraph& graph) {
  if (graph.time != 0)
    facts += fmt::format("{}{}", facts.empty() ? "" : ", ", readable_time(graph.time));
  if (graph.inductor_time != 0)
    facts += fmt::format(
        "{}(Inductor {}{})", facts.empty() ? "" : " ", readable_time(graph.inductor_time),
        graph.compiler_time == 0 ? "" : ", compilers " + readable_time(graph.compiler_time));
}

}  // namespace

std::string compilation_facts(const Compilation& compilation) {
  std::string facts;
  if (compilation.graph_ops != 0) facts = readable_count(compilation.graph_ops, "op");
  append_times(facts, compilation.forward);
  if (!compilation.cache.empty())
    facts += fmt::format("{}cache {}", facts.empty() ? "" : ", ", compilation.cache);
  return facts;
}

std::string backward_facts(const Compilation& compilation) {
  std::string facts;
  if (compilation.backward) append_times(facts, *compilation.backward);
  return facts;
}

std::vector<std::string> pairs_not_fused(const CompiledGraph& graph) {
  std::vector<std::string> pairs;
  for (const NotFused& pair : graph.not_fused) {
    if (pair.is_extern) continue;
    pairs.push_back(printable(
        fmt::format("{} with {}{}", pair.producer, pair.consumer,
                    pair.reason.empty() ? ", Inductor records no reason" : ": " + pair.reason)));
  }
  return pairs;
}

std::vector<const CompiledGraph*> graphs_of(const Compilation& compilation) {
  std::vector<const CompiledGraph*> graphs = {&compilation.forward};
  if (compilation.backward) graphs.push_back(&*compilation.backward);
  return graphs;
}

}  // namespace optrace
