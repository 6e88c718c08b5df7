#include "report/compiled/compilations.h"

#include <algorithm>
#include <ranges>

#include <fmt/core.h>

#include "indexer/store/source_link.h"

namespace optrace {
namespace {

// Adds what Inductor generated for a graph: the kernels of its files, and what was not fused.
void add_generated(const GeneratedCode& generated, CompiledGraph& graph) {
  for (const std::string& file : graph.generated) {
    for (const auto& [name, kernel] : generated.kernels_in(file)) {
      GeneratedKernel& described = graph.kernels.emplace_back();
      described.name = name;
      described.file = file;
      described.origins = kernel.origins;
      if (!kernel.file.empty()) described.source = {kernel.file, kernel.line};
    }
    const std::vector<NotFused>& not_fused = generated.not_fused_in(file);
    graph.not_fused.insert(graph.not_fused.end(), not_fused.begin(), not_fused.end());
  }
}

bool is_place(const std::optional<CodePlace>& place, std::string_view file, std::uint32_t line) {
  return place && line != 0 && place->line == line && place->file == file;
}

bool has_file(const CompiledGraph& graph, std::string_view file) {
  return std::ranges::find(graph.generated, file) != graph.generated.end();
}

}  // namespace

std::vector<Compilation> describe_compilations(const TraceMeta& meta,
                                               const GeneratedCode& generated) {
  std::vector<Compilation> compilations = recorded_compilations(meta);
  const auto shorten = [&](std::string& file) {
    file = relative_to_torch(file, meta.torch_folder);
  };
  const auto add_code = [&](CompiledGraph& graph) {
    if (graph.called_from) shorten(graph.called_from->file);
    add_generated(generated, graph);
  };
  for (Compilation& one : compilations) {
    shorten(one.file);
    for (GraphBreak& broken : one.breaks) shorten(broken.file);
    add_code(one.forward);
    if (auto& backward = one.backward; backward.has_value()) add_code(*backward);
  }
  return compilations;
}

std::vector<std::string> compilations_at(const std::vector<Compilation>& compilations,
                                         const CallPlace& place) {
  std::vector<std::string> ids;
  for (const Compilation& one : compilations)
    if (is_place(one.forward.called_from, place.file, place.line)) ids.push_back(one.id);
  return ids;
}

std::vector<std::string> backward_compilations_at(const std::vector<Compilation>& compilations,
                                                  const CallPlace& place) {
  std::vector<std::string> of_function, of_line;
  for (const Compilation& one : compilations) {
    if (!one.backward) continue;
    if (is_place(CodePlace{one.file, one.line}, place.file, place.function_line) &&
        one.function == place.function)
      of_function.push_back(one.id);
    if (is_place(one.forward.called_from, place.file, place.line)) of_line.push_back(one.id);
  }
  return of_function.empty() ? of_line : of_function;
}

CompilationIds compilations_of_file(const std::vector<Compilation>& compilations,
                                    std::string_view file) {
  CompilationIds ids;
  for (const Compilation& one : compilations) {
    if (has_file(one.forward, file)) ids.forward.push_back(one.id);
    if (one.backward && has_file(*one.backward, file)) ids.backward.push_back(one.id);
  }
  return ids;
}

std::string graph_break_reason(const std::vector<Compilation>& compilations, std::string_view file,
                               std::uint32_t line) {
  for (const Compilation& one : compilations)
    for (const GraphBreak& broken : one.breaks)
      if (broken.line == line && broken.file == file) return broken.reason;
  return {};
}

std::string reason_not_compiled(const std::vector<Compilation>& compilations, std::string_view file,
                                std::uint32_t line) {
  std::size_t recompiled = 0;
  const Compilation* last = nullptr;
  for (const Compilation& one : compilations) {
    if (one.line != line || one.file != file) continue;
    last = &one;
    if (!one.recompile_reasons.empty()) ++recompiled;
  }
  if (last == nullptr) return {};
  if (!last->breaks.empty())
    return fmt::format("line {}: {}", last->breaks.back().line, last->breaks.back().reason);
  if (last->recompile_limit)
    return fmt::format("PyTorch reached its limit of recompilations, after compiling it {} {}",
                       recompiled + 1, recompiled == 0 ? "time" : "times");
  constexpr std::size_t kSeveral = 2;
  return recompiled < kSeveral
             ? std::string()
             : fmt::format("it was compiled {} times before, as guards failed", recompiled + 1);
}

std::string failed_guard(const std::vector<Compilation>& compilations, std::string_view function) {
  for (const Compilation& one : std::views::reverse(compilations)) {
    if (one.recompile_reasons.empty() || one.function != function) continue;
    // It begins with the ID of the compiled code whose guard failed: "0/0: ".
    const std::string& reason = one.recompile_reasons.front();
    const std::size_t after_id = reason.find(": ");
    return after_id == std::string::npos ? reason : reason.substr(after_id + 2);
  }
  return {};
}

}  // namespace optrace
