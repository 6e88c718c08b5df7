#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "indexer/symbol_key.h"
#include "report/call_lines.h"
#include "report/call_tree.h"
#include "report/layers.h"
#include "report/report.h"
#include "report/source_link.h"
#include "report/symbol_name.h"

namespace optrace {
namespace {

using Node = CallTree::Node;

constexpr std::string_view kOneDnnEntry = "dnnl_primitive_execute";

// `torch::autograd` kernels, wrappers and what they hand on to are "the kernel of" an op.
bool is_wrapper(std::string_view name) {
  const std::size_t at = name.rfind("::");
  const std::string_view last = at == std::string_view::npos ? name : name.substr(at + 2);
  return last.starts_with("wrapper_");
}

// ATen compiles files of aten/src/ATen/native/cpu once for each CPU capability, as copies named
// `add_kernel.cpp.AVX2.cpp` (cmake/Codegen.cmake).
std::optional<std::string> cpu_capability(std::string_view source_file) {
  for (const std::string_view capability : {"DEFAULT", "AVX2", "AVX512", "AMX"}) {
    const std::string ending = fmt::format(".{}.cpp", capability);
    if (source_file.ends_with(ending)) return std::string(capability);
  }
  return std::nullopt;
}

std::string text_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// What is the same for every frame of one function.
struct FunctionFacts {
  std::string name;
  Placement placement;
  std::optional<std::string> library;
  std::optional<DispatcherStep> step;  // Views into `name`.
  std::optional<std::string> op;       // Of a dispatcher step.
  std::optional<FrameSource> source;
  IndexedFunction indexed;
};

// Where the kernels lie that ATen compiles for several CPU capabilities: they are reached through
// a stub, which picks the copy.
bool is_behind_stub(const FunctionFacts& function) {
  return function.source && (function.source->file.starts_with("aten/src/ATen/native/cpu/") ||
                             function.source->file.find("/UfuncCPUKernel_") != std::string::npos);
}

// A way through the calls, counted. First every one, then the ones that the report shows.
struct Path {
  std::uint32_t parent = kNone;  // A path before this one.
  Node::Kind kind = Node::Kind::function;
  bool tail_call = false;
  bool leads = false;  // Something below is always shown.
  std::uint32_t what = kNone;
  std::uint32_t line = 0;  // Of Python code, that calls it.
  std::uint32_t builtin = kNone;
  std::uint32_t through = kNone;  // The outermost folded frame between `parent` and this one.
  std::uint32_t thread = 0;       // The first that took it; `last_thread` the last of `threads`.
  std::uint32_t last_thread = 0;
  std::uint32_t threads = 1;
  std::uint32_t implementation = kNone;  // oneDNN's: a function.
  std::uint64_t calls = 0;
};

// What tells the children of one path apart.
struct PathKey {
  std::uint32_t parent;
  std::uint32_t thread;
  std::uint32_t what;
  std::uint32_t line;
  std::uint32_t builtin;
  std::uint32_t through;
  std::uint32_t implementation;
  std::uint32_t kind;  // And whether it was a tail call.
  bool operator==(const PathKey&) const = default;
};

struct PathKeyHash {
  std::size_t operator()(const PathKey& key) const {
    std::uint64_t hash = 0x9E3779B97F4A7C15U;
    for (const std::uint32_t part : {key.parent, key.thread, key.what, key.line, key.builtin,
                                     key.through, key.implementation, key.kind}) {
      hash ^= part;
      hash *= 0xFF51AFD7ED558CCDU;  // MurmurHash3's finaliser.
      hash ^= hash >> 32U;
    }
    return hash;
  }
};

// Paths by what they are, in the order in which they were first taken.
class PathSet {
 public:
  // Adds `path.calls` to the path that is the same, or adds the path. Returns its place.
  std::uint32_t add(const Path& path) {
    const PathKey key{
        .parent = path.parent,
        .thread = path.parent == kNone ? path.thread : 0,
        .what = path.what,
        .line = path.line,
        .builtin = path.builtin,
        .through = path.through,
        .implementation = path.implementation,
        .kind = static_cast<std::uint32_t>(path.kind) * 2 + (path.tail_call ? 1U : 0U)};
    const auto [at, added] = places_.try_emplace(key, static_cast<std::uint32_t>(paths_.size()));
    if (added) {
      paths_.push_back(path);
      return at->second;
    }
    Path& same = paths_[at->second];
    same.calls += path.calls;
    // Threads come one after the other, so a set of them need not be kept.
    if (same.last_thread != path.thread) {
      same.threads += path.threads;
      same.last_thread = path.last_thread;
    }
    return at->second;
  }

  std::vector<Path>& paths() { return paths_; }

 private:
  std::vector<Path> paths_;
  std::unordered_map<PathKey, std::uint32_t, PathKeyHash> places_;
};

class Merge {
 public:
  Merge(const Trace& trace, const Index* index, const MergeOptions& options)
      : trace_(trace), index_(index), options_(options), facts_(trace.functions.size()) {
    if (index_ != nullptr) call_lines_.emplace(*index_);
    const nlohmann::json& torch = torch_meta();
    torch_version_ = text_at(torch, "version");
    torch_git_version_ = text_at(torch, "git_version");
    torch_folder_ = text_at(trace_.meta, "torch_folder");
  }

  Report run() {
    Report report;
    report.meta = trace_.meta;
    report.torch = describe_torch();
    report.device = text_at(trace_.meta, "device");
    if (report.device != "cuda") report.device = "cpu";
    if (index_ != nullptr) {
      report.source_version = index_->torch_version();
      report.source_exact = is_exact_source(*index_, torch_version_, torch_git_version_);
      native_links_ = SourceLink(index_->git_version().empty() && report.source_exact
                                     ? torch_git_version_
                                     : std::string(index_->git_version()),
                                 report.source_version);
    }
    python_links_ = SourceLink(torch_git_version_, torch_version_);

    const CallTreeFunctions functions(trace_);
    std::vector<CallTree> trees;
    trees.reserve(trace_.threads.size());
    for (const ThreadRecord& thread : trace_.threads) {
      trees.emplace_back(functions, thread);
      if (!thread.events.empty()) ++report.threads;
      report.events += thread.events.size();
      report.lost_events += thread.lost;
      add(report.statistics, trees.back().statistics());
    }
    count_paths(trees);
    note_implementations();
    note_leads();
    choose_shown();
    report.roots = make_frames();
    return report;
  }

 private:
  const nlohmann::json& torch_meta() const {
    static const nlohmann::json kUnknown = nlohmann::json::object();
    if (!trace_.meta.is_object()) return kUnknown;
    const auto found = trace_.meta.find("torch");
    return found != trace_.meta.end() && found->is_object() ? *found : kUnknown;
  }

  // The keys that the report promises, whatever the trace has; null where it is silent.
  nlohmann::json describe_torch() const {
    nlohmann::json torch;
    for (const char* const key : {"version", "git_version", "cuda"}) {
      const std::string text = text_at(torch_meta(), key);
      torch[key] = text.empty() ? nlohmann::json() : nlohmann::json(text);
    }
    const auto debug = torch_meta().find("debug");
    torch["debug"] = debug != torch_meta().end() && debug->is_boolean() ? *debug : nlohmann::json();
    return torch;
  }

  static void add(CallTree::Statistics& sum, const CallTree::Statistics& more) {
    sum.entries += more.entries;
    sum.roots += more.roots;
    sum.tail_calls += more.tail_calls;
    sum.indirect_tail_calls += more.indirect_tail_calls;
    sum.self_entries += more.self_entries;
    sum.unprobed_callers += more.unprobed_callers;
    sum.recursive_callers += more.recursive_callers;
    sum.unmatched_python_events += more.unmatched_python_events;
  }

  const FunctionFacts& facts(std::uint32_t function) {
    std::unique_ptr<FunctionFacts>& facts = facts_[function];
    if (facts == nullptr) facts = describe(trace_.functions[function]);
    return *facts;
  }

  std::unique_ptr<FunctionFacts> describe(const TraceFunction& function) const {
    auto facts = std::make_unique<FunctionFacts>();
    if (function.module < trace_.modules.size())
      facts->library =
          std::filesystem::path(trace_.modules[function.module].path).filename().string();
    facts->name = function.symbol.empty()
                      ? fmt::format("{}+{:#x}", facts->library.value_or("?"), function.address)
                      : qualified_name(function.symbol);
    facts->placement = place(facts->name, facts->library.value_or(""));
    if (const auto step = dispatcher_step(facts->name)) {
      facts->step = step;
      if (!step->op.empty()) facts->op = op_of(step->op);
    }
    if (index_ == nullptr || function.symbol.empty()) return facts;
    facts->indexed = {canonical_symbol(function.symbol), function.source_file};
    if (const auto found =
            index_->find_definition(facts->indexed.symbol, facts->indexed.source_file)) {
      FrameSource& source = facts->source.emplace();
      source.file = found->location.file;
      source.line = found->location.line;
      source.url = native_links_.of_native(source.file, source.line);
    }
    return facts;
  }

  std::optional<std::string> op_of(std::string_view unambiguous_name) const {
    if (trace_.meta.is_object() && trace_.meta.contains("op_names")) {
      const nlohmann::json& names = trace_.meta["op_names"];
      if (names.is_object()) {
        const auto found = names.find(std::string(unambiguous_name));
        if (found != names.end() && found->is_string()) return found->get<std::string>();
      }
    }
    if (index_ != nullptr)
      if (const auto entry = index_->find_op(unambiguous_name)) return std::string(entry->name);
    return std::nullopt;
  }

  Shown shown(const Path& path) {
    if (options_.all) return Shown::always;
    if (path.kind == Node::Kind::python)
      return place_python(trace_.python_functions[path.what].name).shown;
    if (path.kind == Node::Kind::initial || path.what == kNone) return Shown::never;
    return facts(path.what).placement.shown;
  }

  // Where the function of a parallel region was entered by the thread that opened the region.
  struct RegionEntry {
    std::uint64_t time = 0;
    std::uint32_t thread = 0;
    std::uint32_t node = 0;
  };
  using RegionEntries = std::unordered_map<std::uint32_t, std::vector<RegionEntry>>;

  RegionEntries find_regions(const std::vector<CallTree>& trees) {
    RegionEntries regions;
    for (std::uint32_t thread = 0; thread < trees.size(); ++thread) {
      const std::span<const Node> nodes = trees[thread].nodes();
      for (std::uint32_t i = 0; i < nodes.size(); ++i) {
        const Node& node = nodes[i];
        if (node.kind != Node::Kind::function || node.parent == kNone) continue;
        const Node& parent = nodes[node.parent];
        if (parent.kind == Node::Kind::function && runs_region(parent.what))
          regions[node.what].push_back({trace_.threads[thread].events[node.index].time, thread, i});
      }
    }
    return regions;
  }

  bool runs_region(std::uint32_t function) {
    return runs_parallel_region(trace_.functions[function].symbol);
  }

  // OpenMP's workers start with the function of a region, and so does, a little earlier or later,
  // the thread that opened it. The region's nearest entry in time is the one.
  const RegionEntry* find_region(const RegionEntries& regions, std::uint32_t thread,
                                 const Node& node) const {
    if (node.kind != Node::Kind::function || node.parent != kNone) return nullptr;
    const auto found = regions.find(node.what);
    if (found == regions.end()) return nullptr;
    const std::uint64_t time = trace_.threads[thread].events[node.index].time;
    const RegionEntry* nearest = nullptr;
    std::uint64_t distance = 0;
    for (const RegionEntry& entry : found->second) {
      if (entry.thread == thread) continue;
      const std::uint64_t apart = entry.time < time ? time - entry.time : entry.time - time;
      if (nearest != nullptr && apart >= distance) continue;
      nearest = &entry;
      distance = apart;
    }
    return nearest;
  }

  void count_paths(const std::vector<CallTree>& trees) {
    const RegionEntries regions = find_regions(trees);
    // Those who open regions come before those who only work in them.
    std::vector<std::uint32_t> order;
    for (const bool opens : {true, false})
      for (std::uint32_t thread = 0; thread < trees.size(); ++thread) {
        const bool works = std::any_of(
            trees[thread].nodes().begin(), trees[thread].nodes().end(),
            [&](const Node& node) { return find_region(regions, thread, node) != nullptr; });
        if (works != opens) order.push_back(thread);
      }
    std::vector<std::vector<std::uint32_t>> paths_of(trees.size());
    for (const std::uint32_t thread : order) count_paths(thread, trees[thread], regions, paths_of);
  }

  void count_paths(std::uint32_t thread, const CallTree& tree, const RegionEntries& regions,
                   std::vector<std::vector<std::uint32_t>>& paths_of) {
    std::vector<std::uint32_t>& path_of = paths_of[thread];
    path_of.resize(tree.nodes().size());
    for (std::size_t i = 0; i < tree.nodes().size(); ++i) {
      const Node& node = tree.nodes()[i];
      Path path;
      path.kind = node.kind;
      path.tail_call = node.tail_call;
      path.what = node.what;
      path.line = node.line;
      path.builtin = node.builtin;
      path.thread = path.last_thread = thread;
      path.calls = 1;
      if (node.shown_under != kNone) {
        path.parent = path_of[node.shown_under];
      } else if (const RegionEntry* const region = find_region(regions, thread, node);
                 region != nullptr && region->node < paths_of[region->thread].size()) {
        const Path& opened = every_path_.paths()[paths_of[region->thread][region->node]];
        path.parent = opened.parent;
        path.tail_call = opened.tail_call;
      }
      path_of[i] = every_path_.add(path);
    }
  }

  // oneDNN's interface is one function; which implementation ran is further down.
  void note_implementations() {
    std::vector<Path>& paths = every_path_.paths();
    for (const Path& path : paths) {
      if (path.kind != Node::Kind::function || !onednn_implementation(facts(path.what).name))
        continue;
      for (std::uint32_t up = path.parent; up != kNone; up = paths[up].parent) {
        if (paths[up].kind != Node::Kind::function ||
            facts(paths[up].what).placement.layer != Layer::library)
          break;
        if (facts(paths[up].what).name != kOneDnnEntry) continue;
        // Paths come in the order of calls: the first is the outermost implementation.
        if (paths[up].implementation == kNone) paths[up].implementation = path.what;
        break;
      }
    }
  }

  void note_leads() {
    std::vector<Path>& paths = every_path_.paths();
    for (std::size_t i = paths.size(); i-- > 0;)
      if (paths[i].parent != kNone && (paths[i].leads || shown(paths[i]) == Shown::always))
        paths[paths[i].parent].leads = true;
  }

  // What is folded hands what it leads to up to the path above it.
  void choose_shown() {
    struct Place {
      std::uint32_t path = kNone;    // Where it is shown itself, or else what it is folded into.
      const Path* folded = nullptr;  // The outermost folded one below `path`.
    };
    const std::vector<Path>& every = every_path_.paths();
    std::vector<Place> places(every.size());
    for (std::size_t i = 0; i < every.size(); ++i) {
      const Path& path = every[i];
      Place place = path.parent == kNone ? Place{} : places[path.parent];
      if (!is_shown(path, place.path)) {
        if (place.folded == nullptr) place.folded = &path;
        places[i] = place;
        continue;
      }
      Path shown = path;
      shown.parent = place.path;
      if (place.folded != nullptr) {
        // The call that the parent makes is the one of the outermost folded frame.
        shown.tail_call = place.folded->tail_call;
        if (place.folded->kind == Node::Kind::function) shown.through = place.folded->what;
        if (path.kind != Node::Kind::python) {
          shown.line = place.folded->line;
          shown.builtin = place.folded->builtin;
        }
      }
      const bool under_python =
          place.path != kNone && shown_paths_.paths()[place.path].kind == Node::Kind::python;
      if (!under_python) shown.line = 0;
      if (under_python) shown.through = kNone;
      places[i] = {shown_paths_.add(shown), nullptr};
    }
  }

  bool is_shown(const Path& path, std::uint32_t above) {
    switch (shown(path)) {
      case Shown::always:
        return true;
      case Shown::never:
        return false;
      default:
        // What Python called directly is an answer even if it leads to no op: Tensor.size.
        return path.leads || (above == kNone && path.builtin != kNone);
    }
  }

  std::vector<std::uint32_t> call_lines(const Path& path) {
    if (path.line != 0) return {path.line};
    if (path.parent == kNone || !call_lines_ || path.kind == Node::Kind::python) return {};
    const Path& parent = shown_paths_.paths()[path.parent];
    if (parent.kind == Node::Kind::python || parent.what == kNone || path.what == kNone) return {};
    const FunctionFacts& caller = facts(parent.what);
    std::vector<std::uint32_t> lines;
    if (path.through != kNone)
      lines = call_lines_->find(caller.indexed, facts(path.through).indexed);
    if (lines.empty()) lines = call_lines_->find(caller.indexed, facts(path.what).indexed);
    if (lines.empty() && caller.step) lines = call_lines_->find_dispatch(caller.indexed);
    if (lines.empty() && is_behind_stub(facts(path.what)))
      lines = call_lines_->find_stub(caller.indexed);
    if (lines.empty() && path.through == kNone)
      lines = call_lines_->find_by_name(caller.indexed, facts(path.what).indexed,
                                        !facts(path.what).source);
    return lines;
  }

  Frame make_python_frame(const Path& path) const {
    const PythonFunction& function = trace_.python_functions[path.what];
    Frame frame;
    frame.layer = Layer::python;
    frame.name = function.name;
    if (!function.file.empty()) {
      FrameSource& source = frame.source.emplace();
      source.file = relative_to_torch(function.file, torch_folder_);
      source.line = function.first_line;
      source.url = python_links_.of_python(source.file, source.line);
    }
    return frame;
  }

  Frame make_native_frame(const Path& path) {
    Frame frame;
    if (path.what == kNone) {
      frame.name = "?";
      return frame;
    }
    const FunctionFacts& function = facts(path.what);
    const TraceFunction& traced = trace_.functions[path.what];
    frame.layer = function.placement.layer;
    frame.name = function.name;
    if (!traced.symbol.empty()) frame.symbol = traced.symbol;
    frame.library = function.library;
    frame.source = function.source;
    frame.op = function.op;
    nlohmann::json detail = nlohmann::json::object();
    if (function.step) detail["step"] = function.step->redispatch ? "redispatch" : "call";
    if (path.builtin != kNone) detail["python_name"] = trace_.python_functions[path.builtin].name;
    if (frame.layer == Layer::kernel)
      if (const auto capability = cpu_capability(traced.source_file))
        detail["cpu_capability"] = *capability;
    if (frame.layer == Layer::library) {
      if (const std::string_view name = library_name(frame.name); !name.empty())
        detail["library"] = name;
      if (path.implementation != kNone)
        detail["implementation"] =
            onednn_implementation(facts(path.implementation).name).value_or("");
    }
    if (path.threads > 1) detail["threads"] = path.threads;
    if (path.tail_call) detail["tail_call"] = true;
    if (path.kind == Node::Kind::initial) detail["entered_before_recording"] = true;
    if (!detail.empty()) frame.detail = std::move(detail);
    return frame;
  }

  // Kernels carry the op that the dispatcher handed to them.
  std::optional<std::string> inherited_op(const Frame& frame, const Frame& parent) const {
    if (!parent.op || (frame.layer != Layer::kernel && frame.layer != Layer::autograd))
      return std::nullopt;
    if (dispatcher_step(parent.name) || is_wrapper(parent.name)) return parent.op;
    return std::nullopt;
  }

  std::vector<Frame> make_frames() {
    const std::vector<Path>& paths = shown_paths_.paths();
    std::vector<Frame> frames(paths.size());
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const Path& path = paths[i];
      Frame& frame = frames[i];
      frame = path.kind == Node::Kind::python ? make_python_frame(path) : make_native_frame(path);
      frame.thread = trace_.threads[path.thread].id;
      frame.calls = path.calls;
      if (const std::vector<std::uint32_t> lines = call_lines(path); !lines.empty()) {
        if (!frame.source) frame.source.emplace();
        frame.source->call_line = lines.front();
        if (lines.size() > 1) frame.detail["call_lines"] = lines;
      }
      if (path.parent != kNone && !frame.op) frame.op = inherited_op(frame, frames[path.parent]);
    }
    // Parents come before their children, so from the end every frame is complete when it is
    // moved; what arrives in a parent arrives backwards.
    std::vector<Frame> roots;
    for (std::size_t i = paths.size(); i-- > 0;) {
      std::reverse(frames[i].children.begin(), frames[i].children.end());
      const std::uint32_t parent = paths[i].parent;
      (parent == kNone ? roots : frames[parent].children).push_back(std::move(frames[i]));
    }
    std::reverse(roots.begin(), roots.end());
    return roots;
  }

  const Trace& trace_;
  const Index* index_;
  const MergeOptions options_;
  std::string torch_version_;
  std::string torch_git_version_;
  std::string torch_folder_;
  SourceLink native_links_;
  SourceLink python_links_;
  std::optional<CallLines> call_lines_;
  std::vector<std::unique_ptr<FunctionFacts>> facts_;
  PathSet every_path_;
  PathSet shown_paths_;
};

}  // namespace

Report merge(const Trace& trace, const Index* index, const MergeOptions& options) {
  return Merge(trace, index, options).run();
}

}  // namespace optrace
