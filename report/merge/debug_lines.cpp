#include "report/merge/debug_lines.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "pytorch/source/source_files.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {}  // namespace

DebugLines::DebugLines(const Trace& trace)
    : trace_(trace),
      torch_folder_(trace.meta.torch_folder),
      links_(trace.meta.torch.git_version, trace.meta.torch.version) {}

DebugInfo* DebugLines::info_of(std::uint32_t function) {
  const std::uint32_t module = trace_.functions[function].module;
  if (module == kNone || !trace_.modules[module].debug_info) return nullptr;
  const auto [known, is_new] = modules_.try_emplace(module);
  if (is_new)
    known->second = DebugInfo::open(trace_.modules[module].path, trace_.modules[module].build_id);
  return known->second.get();
}

// Returns a place as the report has it. Files below the folder that contains torch, which are its
// headers and installed extensions, are relative to it.
FrameSource DebugLines::source_of(const DebugPlace& place, const TraceFunction& function) const {
  FrameSource source;
  source.debug_info = true;
  source.line = place.line;
  source.file = relative_to_torch(place.file, torch_folder_);
  const bool of_torch = !torch_folder_.empty() &&
                        trace_.modules[function.module].path.starts_with(torch_folder_ + "/");
  if (!of_torch || source.file.starts_with("torch/include/")) return source;
  if (const std::string_view file = path_in_tree(source.file); !file.empty())
    source.file = std::string(file);
  source.url = links_.of_native(source.file, source.line);
  return source;
}

std::optional<FrameSource> DebugLines::definition_of(std::uint32_t function) {
  DebugInfo* const info = info_of(function);
  if (info == nullptr) return std::nullopt;
  const TraceFunction& traced = trace_.functions[function];
  const std::optional<DebugPlace> place = info->definition_at(traced.address);
  if (!place) return std::nullopt;
  return source_of(*place, traced);
}

const DebugLines::Call& DebugLines::call_at(std::uint32_t function, std::uint32_t call_offset) {
  static const Call kUnknown;
  DebugInfo* const info = call_offset == 0 ? nullptr : info_of(function);
  if (info == nullptr) return kUnknown;
  const auto [known, is_new] = calls_.try_emplace({function, call_offset});
  if (!is_new) return known->second;
  const TraceFunction& caller = trace_.functions[function];
  // The offset is signed: a part that GCC split off may be before its function.
  const auto distance = static_cast<std::int64_t>(static_cast<std::int32_t>(call_offset));
  const DebugCall call = info->call_before(caller.address + static_cast<std::uint64_t>(distance));
  for (const InlinedFunction& inlined : call.inlined)
    known->second.inlined.emplace_back(number_of(inlined, caller), inlined.call_line);
  known->second.line = call.line;
  return known->second;
}

std::uint32_t DebugLines::number_of(const InlinedFunction& function, const TraceFunction& caller) {
  const auto [known, is_new] =
      numbers_.try_emplace({caller.module, function.symbol, function.name,
                            function.definition ? function.definition->line : 0},
                           static_cast<std::uint32_t>(inlined_.size()));
  if (!is_new) return known->second;
  InlinedFrame& made = inlined_.emplace_back();
  made.symbol = function.symbol;
  made.name = function.symbol.empty() ? function.name : qualified_name(function.symbol);
  if (made.name.empty()) made.name.push_back('?');
  made.library = std::filesystem::path(trace_.modules[caller.module].path).filename().string();
  made.classification = classify(made.name, made.library);
  if (function.definition) made.source = source_of(*function.definition, caller);
  return known->second;
}

}  // namespace optrace
