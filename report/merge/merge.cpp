#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "indexer/store/symbol_key.h"
#include "platform/blocks.h"
#include "report/merge/call_lines.h"
#include "report/model/call_detail.h"
#include "report/model/dispatch_detail.h"
#include "report/model/json_fields.h"
#include "report/model/layers.h"
#include "report/model/report.h"
#include "report/model/shortfalls.h"
#include "report/model/source_link.h"
#include "report/model/symbol_name.h"
#include "tracer/probes/function_roles.h"
#include "tracer/trace/python_positions.h"

namespace optrace {
namespace {

// The wrapper that calls a kernel with unboxed arguments (make_boxed_from_unboxed_functor.h).
constexpr std::string_view kUnboxedKernel = "c10::impl::wrap_kernel_functor_unboxed_<";

constexpr std::string_view kOneDnnEntry = "dnnl_primitive_execute";

// Returns true for torchgen's wrappers (`wrapper_CPU_add`). A kernel called by one belongs to its
// op.
bool is_wrapper(std::string_view name) {
  const std::size_t at = name.rfind("::");
  const std::string_view last = at == std::string_view::npos ? name : name.substr(at + 2);
  return last.starts_with("wrapper_");
}

// ATen compiles files of aten/src/ATen/native/cpu once for each CPU capability, as copies named
// `add_kernel.cpp.AVX2.cpp` (Codegen.cmake).
std::optional<std::string> cpu_capability(std::string_view source_file) {
  for (const std::string_view capability : {"DEFAULT", "AVX2", "AVX512", "AMX"}) {
    const std::string ending = fmt::format(".{}.cpp", capability);
    if (source_file.ends_with(ending)) return std::string(capability);
  }
  return std::nullopt;
}

// Facts that are the same for every frame of one function.
struct FunctionFacts {
  std::string name;
  Placement placement;
  bool emulated = false;  // In an emulated library that replaced one of CUDA's.
  std::optional<std::string> library;
  std::optional<DispatcherStep> step;  // Views into `name`.
  std::optional<std::string> op;       // Only for a dispatcher step.
  std::optional<FrameSource> source;
  IndexedFunction indexed;
};

// Returns true for kernels that ATen compiles for several CPU capabilities. They are called through
// a stub, which selects the copy.
bool is_behind_stub(const FunctionFacts& function) {
  return function.source && (function.source->file.starts_with("aten/src/ATen/native/cpu/") ||
                             function.source->file.find("/UfuncCPUKernel_") != std::string::npos);
}

// A path of calls with its count. Used first for all paths, then for those that the report shows.
struct Path {
  std::uint32_t parent = kNone;  // Index of an earlier path.
  PathKind kind = PathKind::function;
  bool tail_call = false;
  bool leads = false;  // A path below it is always shown.
  std::uint32_t what = kNone;
  CodePosition call;  // The position in Python code that calls it.
  std::uint32_t builtin = kNone;
  std::uint32_t through = kNone;  // The outermost folded frame between `parent` and this one.
  std::uint32_t thread = 0;       // The first thread that took it.
  std::uint32_t threads = 1;
  std::uint32_t traced = kNone;            // The first path of the trace that it stands for.
  std::vector<std::uint32_t> also;         // The other paths of the trace that it stands for.
  std::vector<std::uint32_t> folded_work;  // Folded paths of the trace with activity or records.
  std::uint32_t implementation = kNone;    // Function of the oneDNN implementation.
  std::uint32_t boxed = kNone;             // For an op: the boxed step that called it.
  std::uint64_t calls = 0;
};

CodePosition position_of(const TracePath& path) {
  return {path.line, path.column, path.end_line, path.end_column};
}

// The properties that distinguish the children of one path.
struct PathKey {
  std::uint32_t parent;
  std::uint32_t thread;
  std::uint32_t what;
  CodePosition call;
  std::uint32_t builtin;
  std::uint32_t through;
  std::uint32_t implementation;
  std::uint32_t boxed;
  std::uint32_t kind;  // Path::kind times two, plus one for a tail call.
  bool operator==(const PathKey&) const = default;
};

// A set of paths, in the order in which they were first taken.
class PathSet {
 public:
  // Adds `path.calls` to the equal path, or inserts the path. Returns its index.
  std::uint32_t add(Path path) {
    if (paths_.size() * 2 >= slots_.size()) grow(std::max<std::size_t>(1024, slots_.size() * 2));
    const PathKey key = key_of(path);
    const std::uint64_t hash = hash_of(key);
    Slot* const slot =
        find(hash, [&](std::uint32_t place) { return key_of(paths_[place]) == key; });
    if (slot->place == kNone) {
      *slot = {.tag = tag_of(hash), .place = static_cast<std::uint32_t>(paths_.size())};
      paths_.push_back(std::move(path));
      return slot->place;
    }
    Path& same = paths_[slot->place];
    same.calls += path.calls;
    same.threads = std::max(same.threads, path.threads);
    same.also.push_back(path.traced);
    same.also.insert(same.also.end(), path.also.begin(), path.also.end());
    return slot->place;
  }

  // Allocates room for `count` different paths.
  void reserve(std::size_t count) {
    paths_.reserve(count);
    grow(std::bit_ceil(count * 2 + 1));
  }

  std::vector<Path>& paths() { return paths_; }

 private:
  // A slot of the hash table, which uses open addressing, has a power-of-two size and is at most
  // half full.
  struct Slot {
    std::uint32_t tag = 0;  // Bits of the hash that do not determine the slot.
    std::uint32_t place = kNone;
  };

  static PathKey key_of(const Path& path) {
    return {.parent = path.parent,
            .thread = path.parent == kNone ? path.thread : 0,
            .what = path.what,
            .call = path.call,
            .builtin = path.builtin,
            .through = path.through,
            .implementation = path.implementation,
            .boxed = path.boxed,
            .kind = static_cast<std::uint32_t>(path.kind) * 2 + (path.tail_call ? 1U : 0U)};
  }

  static std::uint64_t hash_of(const PathKey& key) {
    static_assert(std::has_unique_object_representations_v<PathKey>);
    return XXH3_64bits(&key, sizeof key);
  }
  static std::uint32_t tag_of(std::uint64_t hash) {
    return static_cast<std::uint32_t>(hash >> 32U);
  }

  // Returns the slot of the equal entry with that hash, or the free slot for it.
  template <typename IsSame>
  Slot* find(std::uint64_t hash, const IsSame& is_same) {
    for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[at];
      if (slot.place == kNone || (slot.tag == tag_of(hash) && is_same(slot.place))) return &slot;
    }
  }

  void grow(std::size_t size) {
    if (size <= slots_.size()) return;
    slots_.assign(size, {});
    for (std::uint32_t place = 0; place < paths_.size(); ++place) {
      const std::uint64_t hash = hash_of(key_of(paths_[place]));
      *find(hash, [](std::uint32_t) { return false; }) = {.tag = tag_of(hash), .place = place};
    }
  }

  std::vector<Path> paths_;
  std::vector<Slot> slots_;
};

class Merge {
 public:
  Merge(const Trace& trace, const Index* index, const MergeOptions& options)
      : trace_(trace),
        index_(index),
        options_(options),
        facts_(trace.functions.size()),
        dispatch_(trace),
        calls_(trace) {
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
    report.dry_run = describe_dry_run();
    if (index_ != nullptr) {
      report.source_version = index_->torch_version();
      report.source_exact = is_exact_source(*index_, torch_version_, torch_git_version_);
      native_links_ = SourceLink(index_->git_version().empty() && report.source_exact
                                     ? torch_git_version_
                                     : std::string(index_->git_version()),
                                 report.source_version);
    }
    python_links_ = SourceLink(torch_git_version_, torch_version_);

    for (const ThreadRecord& thread : trace_.threads)
      if (thread.id != 0) ++report.threads;
    report.statistics = trace_.statistics;
    report.shortfalls = shortfalls_of(trace_);
    take_paths();
    note_unboxed();
    note_implementations();
    note_leads();
    choose_shown();
    every_path_ = {};  // No longer needed, and frames take much memory.
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

  // Returns the keys that the report's format requires; null for those that the trace doesn't have.
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

  // Returns the emulated device in the report's format; null if nothing was emulated.
  nlohmann::json describe_dry_run() const {
    const nlohmann::json& dry_run = dry_run_meta();
    if (!dry_run.is_object() || text_at(dry_run, "arch").empty()) return {};
    return {{"arch", text_at(dry_run, "arch")},
            {"gpu_model", text_at(dry_run, "gpu_model")},
            {"devices", count_at(dry_run, "devices")}};
  }

  const nlohmann::json& dry_run_meta() const {
    static const nlohmann::json kNone;
    if (!trace_.meta.is_object()) return kNone;
    const auto found = trace_.meta.find("dry_run");
    return found == trace_.meta.end() ? kNone : *found;
  }

  bool is_emulated(const std::optional<std::string>& library) const {
    const nlohmann::json& dry_run = dry_run_meta();
    if (!library || !dry_run.is_object()) return false;
    const auto libraries = dry_run.find("libraries");
    return libraries != dry_run.end() &&
           std::find(libraries->begin(), libraries->end(), *library) != libraries->end();
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
    facts->emulated = is_emulated(facts->library);
    if (const auto step = dispatcher_step(facts->name)) {
      facts->step = step;
      if (!step->op.empty()) facts->op = op_of(step->op);
    }
    if (index_ == nullptr || function.symbol.empty()) return facts;
    facts->indexed = {canonical_symbol(function.symbol),
                      source_file_of(function.symbol, function.source_file),
                      facts->library.value_or("")};
    facts->source = definition_of(facts->indexed);
    return facts;
  }

  // Returns the definition of a native function, if the index has it.
  std::optional<FrameSource> definition_of(const IndexedFunction& function) const {
    if (index_ == nullptr) return std::nullopt;
    const auto found =
        index_->find_definition(function.symbol, function.source_file, function.library);
    if (!found) return std::nullopt;
    FrameSource source;
    source.file = found->location.file;
    source.line = found->location.line;
    source.url = native_links_.of_native(source.file, source.line);
    return source;
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
    if (path.kind == PathKind::python) {
      // Python code is shown if it leads to PyTorch. If nothing does, torch's own Python functions
      // are shown.
      const Shown placed = place_python(trace_.python_functions[path.what].name).shown;
      return placed == Shown::always && any_lead_ ? Shown::leading : placed;
    }
    if (path.kind == PathKind::node || path.kind == PathKind::op || path.kind == PathKind::merged)
      return Shown::always;
    if (path.kind == PathKind::function && path.calls == 0 && is_boxed_step(path.what))
      return Shown::never;
    if (path.kind == PathKind::initial || path.what == kNone) return Shown::never;
    if (fails(path)) return Shown::always;
    return facts(path.what).placement.shown;
  }

  // Returns true if a library call failed at this path.
  bool fails(const Path& path) const {
    bool any = false;
    if (path.traced != kNone)
      for_each_traced(path, [&](const TracePath& one) { any = any || calls_.any_failed(one.ops); });
    return any;
  }

  // Returns true for a dispatcher step that enters any op, given as an argument.
  bool is_boxed_step(std::uint32_t function) {
    if (function == kNone) return false;
    const std::optional<DispatcherStep>& step = facts(function).step;
    return step && step->op.empty() && !step->redispatch;
  }

  // Returns true if the frame of an op replaces its caller's frame.
  bool is_replaced(const TracePath& caller) {
    if (caller.kind != PathKind::function || caller.what == kNone) return false;
    return role_of(trace_.functions[caller.what].symbol).hands_op_on || is_boxed_step(caller.what);
  }

  // Counts, for each path, the calls of ops that have a frame of their own.
  std::vector<std::uint64_t> calls_of_ops() {
    std::vector<std::uint64_t> calls(trace_.paths.size());
    std::vector<std::uint8_t> has_ops(trace_.paths.size());  // 1: merged, parent of ops.
    // Parents come before their children, so from the end every count is complete.
    for (std::size_t i = trace_.paths.size(); i-- > 0;) {
      const TracePath& path = trace_.paths[i];
      if (path.parent == kNone) continue;
      const bool is_op = path.kind == PathKind::op;
      if (is_op && trace_.paths[path.parent].kind == PathKind::merged) has_ops[path.parent] = 1;
      const std::uint64_t handed = is_op ? path.calls : calls[i];
      if (handed != 0 && is_replaced(trace_.paths[path.parent])) calls[path.parent] += handed;
    }
    // Below a merged path, the dispatcher function through which an op was called is unknown.
    for (std::size_t i = 0; i < trace_.paths.size(); ++i) {
      const TracePath& path = trace_.paths[i];
      if (path.parent != kNone && has_ops[path.parent] != 0 && is_replaced(path))
        calls[i] = path.calls;
    }
    return calls;
  }

  // The dispatcher functions through which an op was called.
  struct Replaced {
    std::uint32_t outermost = kNone;  // A path of the trace; kNone if there are no such functions.
    std::uint32_t boxed = kNone;      // Function of the innermost boxed step.
  };

  // Returns these functions for each path of the trace: those among itself and the paths directly
  // above.
  std::vector<Replaced> replaced_paths() {
    std::vector<Replaced> replaced(trace_.paths.size());
    for (std::uint32_t i = 0; i < trace_.paths.size(); ++i) {
      const TracePath& path = trace_.paths[i];
      if (!is_replaced(path)) continue;
      if (path.parent != kNone) replaced[i] = replaced[path.parent];
      if (replaced[i].outermost == kNone) replaced[i].outermost = i;
      if (is_boxed_step(path.what)) replaced[i].boxed = path.what;
    }
    return replaced;
  }

  // Makes an op's frame replace the dispatcher functions through which it was called. Returns the
  // trace path of its parent.
  std::uint32_t take_place(const TracePath& op, const std::vector<Replaced>& replaced,
                           Path& path) const {
    const Replaced through = op.parent == kNone ? Replaced{} : replaced[op.parent];
    path.boxed = through.boxed;
    if (options_.all) return op.parent;
    const TracePath& outermost = through.outermost == kNone ? op : trace_.paths[through.outermost];
    path.tail_call = outermost.tail_call;
    path.call = position_of(outermost);
    path.builtin = outermost.builtin;
    return outermost.parent;
  }

  // Collects the trace's paths. An autograd node becomes a child of the op that made it, wherever
  // the engine ran it.
  void take_paths() {
    const std::vector<std::uint64_t> of_ops =
        options_.all ? std::vector<std::uint64_t>(trace_.paths.size()) : calls_of_ops();
    const std::vector<Replaced> replaced = replaced_paths();
    std::vector<std::uint32_t> places;
    places.reserve(trace_.paths.size());
    every_path_.reserve(trace_.paths.size());
    for (std::uint32_t i = 0; i < trace_.paths.size(); ++i) {
      const TracePath& traced = trace_.paths[i];
      Path path;
      path.kind = traced.kind;
      path.tail_call = traced.tail_call;
      path.what = traced.what;
      path.call = position_of(traced);
      path.builtin = traced.builtin;
      path.thread = traced.thread;
      path.threads = traced.thread_count;
      path.calls = traced.calls - std::min(traced.calls, of_ops[i]);
      path.traced = i;
      const bool made_by = traced.caused_by != kNone && traced.caused_by < i;
      std::uint32_t parent = made_by ? traced.caused_by : traced.parent;
      if (path.kind == PathKind::op) parent = take_place(traced, replaced, path);
      if (parent != kNone) path.parent = places[parent];
      places.push_back(every_path_.add(std::move(path)));
    }
  }

  // Finds the implementation that each call of oneDNN ran. oneDNN's entry point is a single
  // function, and the implementation is further below.
  void note_implementations() {
    std::vector<Path>& paths = every_path_.paths();
    // For each path: the innermost oneDNN entry point above it, with only library functions in
    // between.
    std::vector<std::uint32_t> entries(paths.size(), kNone);
    for (std::uint32_t i = 0; i < paths.size(); ++i) {
      const Path& path = paths[i];
      if (path.kind != PathKind::function || path.what == kNone) continue;
      const FunctionFacts& function = facts(path.what);
      const std::uint32_t entry = path.parent == kNone ? kNone : entries[path.parent];
      // Paths are in call order, so the first match is the outermost implementation.
      if (entry != kNone && paths[entry].implementation == kNone &&
          onednn_implementation(function.name))
        paths[entry].implementation = path.what;
      if (function.placement.layer == Layer::library)
        entries[i] = function.name == kOneDnnEntry ? i : entry;
    }
  }

  void note_leads() {
    std::vector<Path>& paths = every_path_.paths();
    any_lead_ = std::ranges::any_of(paths, [&](const Path& path) {
      return path.kind != PathKind::python && shown(path) == Shown::always;
    });
    for (std::size_t i = paths.size(); i-- > 0;) {
      paths[i].leads = paths[i].leads || works(paths[i]);
      if (paths[i].parent != kNone && (paths[i].leads || shown(paths[i]) == Shown::always))
        paths[paths[i].parent].leads = true;
    }
  }

  // Selects the paths to show. Children of a folded path move to the nearest shown path above it.
  void choose_shown() {
    struct Place {
      std::uint32_t path = kNone;    // Itself if shown, else the shown path that it is folded into.
      const Path* folded = nullptr;  // The outermost folded path below `path`.
    };
    const std::vector<Path>& every = every_path_.paths();
    std::vector<Place> places(every.size());
    for (std::size_t i = 0; i < every.size(); ++i) {
      const Path& path = every[i];
      Place place = path.parent == kNone ? Place{} : places[path.parent];
      if (!is_shown(path, place.path)) {
        if (place.folded == nullptr) place.folded = &path;
        places[i] = place;
        if (place.path != kNone && (works(path) || asks(path))) {
          std::vector<std::uint32_t>& folded = shown_paths_.paths()[place.path].folded_work;
          folded.push_back(path.traced);
          folded.insert(folded.end(), path.also.begin(), path.also.end());
        }
        continue;
      }
      Path shown = path;
      shown.parent = place.path;
      if (place.folded != nullptr) {
        // The call made by the parent is that of the outermost folded frame.
        shown.tail_call = place.folded->tail_call;
        if (place.folded->kind == PathKind::function) shown.through = place.folded->what;
        shown.call = place.folded->call;
        if (path.kind != PathKind::python) shown.builtin = place.folded->builtin;
      }
      const bool under_python =
          place.path != kNone && shown_paths_.paths()[place.path].kind == PathKind::python;
      if (!under_python) shown.call = {};
      if (under_python) shown.through = kNone;
      places[i] = {shown_paths_.add(std::move(shown)), nullptr};
    }
  }

  bool is_shown(const Path& path, std::uint32_t above) {
    switch (shown(path)) {
      case Shown::always:
        return true;
      case Shown::never:
        return false;
      default:
        // A function that Python called directly is shown even if it leads to no op: Tensor.size.
        return path.leads || (above == kNone && path.builtin != kNone);
    }
  }

  // Returns the native function of a path's frame.
  static std::uint32_t function_of(const Path& path) {
    return path.kind == PathKind::function ? path.what
           : path.kind == PathKind::op     ? path.boxed
                                           : kNone;
  }

  std::vector<std::uint32_t> call_lines(const Path& path) {
    if (path.call.line != 0) return {path.call.line};
    if (path.parent == kNone || !call_lines_ || path.kind == PathKind::python) return {};
    const std::uint32_t calling = function_of(shown_paths_.paths()[path.parent]);
    const std::uint32_t called = function_of(path);
    if (calling == kNone || called == kNone) return {};
    const FunctionFacts& caller = facts(calling);
    const FunctionFacts& callee = facts(called);
    std::vector<std::uint32_t> lines;
    if (path.through != kNone)
      lines = call_lines_->find(caller.indexed, facts(path.through).indexed);
    if (lines.empty()) lines = call_lines_->find(caller.indexed, callee.indexed);
    if (lines.empty() && caller.step) lines = call_lines_->find_dispatch(caller.indexed);
    if (lines.empty() && is_behind_stub(callee)) lines = call_lines_->find_stub(caller.indexed);
    if (lines.empty() && path.through == kNone)
      lines = call_lines_->find_by_name(caller.indexed, callee.indexed, !callee.source);
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

  // Returns derivatives.yaml's entry for the node that an op makes: each formula with its line.
  std::optional<OpFacts::Derivative> derivative_of(std::string_view op,
                                                   std::string_view node) const {
    if (index_ == nullptr) return std::nullopt;
    const auto entry = index_->find_op(unambiguous_name(op));
    if (!entry || entry->name != op) return std::nullopt;
    for (OpFacts::Derivative& derivative : index_->facts_of(*entry).derivatives)
      if (derivative.node == node) return std::move(derivative);
    return std::nullopt;
  }

  // Makes the frame of an autograd node that ran, under the node's own name:
  // `ConvolutionBackward0`.
  Frame make_node_frame(const Path& path, const Frame* parent) const {
    Frame frame;
    frame.layer = Layer::autograd;
    frame.name = "?";
    if (path.what != kNone)
      if (std::string name = dispatch_.node_name(path.what); !name.empty())
        frame.name = std::move(name);
    frame.detail = {{"node", frame.name}};
    if (parent != nullptr && parent->op) {
      frame.detail["backward_of"] = *parent->op;
      if (const auto derivative = derivative_of(*parent->op, frame.name)) {
        FrameSource& source = frame.source.emplace();
        source.file = "tools/autograd/derivatives.yaml";
        source.line = derivative->line;
        source.url = native_links_.of_native(source.file, source.line);
        for (const OpFacts::Formula& formula : derivative->backward)
          frame.detail["formulas"].push_back({{"arguments", formula.arguments},
                                              {"formula", formula.text},
                                              {"line", formula.line}});
      }
    }
    return frame;
  }

  // Makes the frame of an op that was called without a dispatcher step of its own.
  Frame make_op_frame(const Path& path) {
    Frame frame;
    frame.layer = Layer::dispatcher;
    frame.name = kUnboxedCall;
    if (path.boxed != kNone) {
      const FunctionFacts& function = facts(path.boxed);
      frame.name = function.name;
      frame.symbol = trace_.functions[path.boxed].symbol;
      frame.library = function.library;
      frame.source = function.source;
    }
    if (std::string name = dispatch_.op_name(path.what); !name.empty()) frame.op = std::move(name);
    frame.detail = nlohmann::json::object();
    describe_step(path, {}, frame.op, frame.detail);
    describe_way(path, frame.detail);
    return frame;
  }

  void describe_way(const Path& path, nlohmann::json& detail) const {
    if (path.builtin != kNone) detail["python_name"] = trace_.python_functions[path.builtin].name;
    if (path.threads > 1) detail["threads"] = path.threads;
    if (path.tail_call) detail["tail_call"] = true;
  }

  Frame make_native_frame(const Path& path, std::vector<std::uint32_t>& order) {
    Frame frame;
    if (path.kind == PathKind::merged) {
      frame.name = "...";
      frame.detail = {{"merged", true}};
      return frame;
    }
    if (path.what == kNone) {
      frame.name = path.kind == PathKind::function ? "(interpreter and system libraries)" : "?";
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
    if (function.step) describe_step(path, *function.step, frame.op, detail);
    if (frame.layer == Layer::kernel)
      if (const auto capability = cpu_capability(traced.source_file))
        detail["cpu_capability"] = *capability;
    if (frame.layer == Layer::library) {
      if (const std::string_view name = library_name(frame.name); !name.empty())
        detail["library"] = name;
      if (function.emulated) detail["emulated"] = true;
      if (path.implementation != kNone)
        detail["implementation"] =
            onednn_implementation(facts(path.implementation).name).value_or("");
    }
    if (!function.step) describe_calls(path, frame, detail, order);
    describe_way(path, detail);
    if (path.kind == PathKind::initial) detail["entered_before_recording"] = true;
    if (path.kind == PathKind::function && !trace_.functions[path.what].probed)
      detail["calls_at_least"] = true;
    if (!detail.empty()) frame.detail = std::move(detail);
    return frame;
  }

  // Visits the trace's paths that this path stands for, in the order of their first call.
  template <typename Visit>
  void for_each_traced(const Path& path, const Visit& visit) const {
    visit(trace_.paths[path.traced]);
    for (const std::uint32_t traced : path.also) visit(trace_.paths[traced]);
  }

  // Returns true if a device did work for the path.
  bool works(const Path& path) const {
    bool any = false;
    for_each_traced(path, [&](const TracePath& one) { any = any || !one.activities.empty(); });
    return any;
  }

  // Returns true if the path has records, which may describe library calls.
  bool asks(const Path& path) const {
    bool any = false;
    for_each_traced(path, [&](const TracePath& one) { any = any || !one.ops.empty(); });
    return any;
  }

  // Adds the library calls of the path and of the paths folded into it, and the kernels that they
  // launched.
  void describe_calls(const Path& path, Frame& frame, nlohmann::json& detail,
                      std::vector<std::uint32_t>& order) const {
    std::vector<OpTally> tallies;
    std::vector<std::uint32_t> of;  // For each tally, its path in the trace.
    std::unordered_map<std::uint32_t, std::size_t> places;  // Index in `tallies`, by record.
    for_each_traced_work(path, [&](const TracePath& one, std::uint32_t traced) {
      for (const OpTally& tally : one.ops) {
        const auto [same, added] = places.emplace(tally.record, tallies.size());
        if (!added) {
          tallies[same->second].calls += tally.calls;
          continue;
        }
        tallies.push_back(tally);
        of.push_back(traced);
      }
    });
    if (tallies.empty()) return;
    CallDetails::Calls calls = calls_.of(frame.name, tallies);
    if (!calls.calls.empty()) detail["calls"] = std::move(calls.calls);
    if (calls.reads_device) detail["reads_device_memory"] = true;
    add_kernel_frames(std::move(calls.launches), of, frame, order);
    for (CallDetails::Failed& failed : calls.failed) {
      frame.children.push_back(make_failed_frame(std::move(failed)));
      order.push_back(path.traced);
    }
  }

  // Visits the trace's paths that this path stands for and those folded into it, in the trace's
  // order.
  template <typename Visit>
  void for_each_traced_work(const Path& path, const Visit& visit) const {
    std::vector<std::uint32_t> all{path.traced};
    all.insert(all.end(), path.also.begin(), path.also.end());
    all.insert(all.end(), path.folded_work.begin(), path.folded_work.end());
    std::ranges::sort(all);
    for (const std::uint32_t traced : all) visit(trace_.paths[traced], traced);
  }

  // `of` has the path in the trace for each tally.
  void add_kernel_frames(std::vector<CallDetails::Launch> launches,
                         const std::vector<std::uint32_t>& of, Frame& frame,
                         std::vector<std::uint32_t>& order) const {
    for (CallDetails::Launch& launch : launches) {
      order.push_back(of[launch.first]);
      frame.children.push_back(make_kernel_frame(std::move(launch)));
    }
  }

  // Makes the frame of a failed library function that has no probe.
  static Frame make_failed_frame(CallDetails::Failed failed) {
    Frame frame;
    frame.layer = Layer::library;
    frame.name = std::move(failed.function);
    frame.calls = std::max<std::uint64_t>(failed.calls, 1);
    frame.detail = std::move(failed.detail);
    if (const std::string_view name = library_name(frame.name); !name.empty())
      frame.detail["library"] = name;
    return frame;
  }

  // Returns the function that a call record names, if it is not the frame's own.
  static std::string called_function(const nlohmann::json& call) {
    std::string name = text_at(call, "call");
    if (!name.empty() && text_at(call, "library") == "oneDNN") return std::string(kOneDnnEntry);
    return name;
  }

  // A library call is recorded before the library's function is entered, and thus attributed to the
  // caller. If exactly one child frame is of the called function, the record moves there. If none
  // is, it moves to a new frame, so that every library call has a frame.
  void hand_down_calls(const Path& path, Frame& frame) {
    if (!frame.detail.is_object() || !frame.detail.contains("calls")) return;
    nlohmann::json kept = nlohmann::json::array();
    std::unordered_map<std::string_view, std::vector<std::size_t>> children;  // Indexes, by name.
    for (std::size_t i = 0; i < frame.children.size(); ++i)
      children[frame.children[i].name].push_back(i);
    std::vector<Frame> made;
    std::unordered_map<std::string, std::size_t> places;  // Index in `made`, by name.
    for (nlohmann::json& call : frame.detail["calls"]) {
      const std::string name = called_function(call);
      const auto found = children.find(name);
      const std::size_t callees = found == children.end() ? 0 : found->second.size();
      if (name.empty() || callees > 1 || (callees == 0 && frame.layer == Layer::library)) {
        kept.push_back(std::move(call));
        continue;
      }
      const auto [place, added] =
          callees == 1 ? std::pair(places.end(), false) : places.emplace(name, made.size());
      if (added) made.push_back(called_frame(path, frame, name));
      Frame& callee = callees == 1 ? frame.children[found->second.front()] : made[place->second];
      if (callees == 0) callee.calls += count_at(call, "calls");
      if (text_at(call, "call") == name) call.erase("call");
      callee.detail["calls"].push_back(std::move(call));
    }
    std::ranges::move(made, std::back_inserter(frame.children));
    frame.detail["calls"] = std::move(kept);
    if (frame.detail["calls"].empty()) frame.detail.erase("calls");
    if (frame.detail.empty()) frame.detail = nullptr;
  }

  // Makes a frame for a library function that has no entry in the trace.
  Frame called_frame(const Path& path, const Frame& caller, const std::string& name) {
    Frame frame;
    frame.layer = Layer::library;
    frame.name = name;
    frame.symbol = name;
    frame.calls = 0;
    frame.thread = caller.thread;
    if (const std::string_view library = library_name(name); !library.empty())
      frame.detail["library"] = library;
    if (!call_lines_ || path.kind != PathKind::function || path.what == kNone) return frame;
    if (const std::vector<std::uint32_t> lines =
            call_lines_->find(facts(path.what).indexed, {.symbol = canonical_symbol(name)});
        !lines.empty())
      frame.source.emplace().call_line = lines.front();
    return frame;
  }

  // Adds the work that devices did for the path and for the paths folded into it.
  void describe_work(const Path& path, Frame& frame, std::vector<std::uint32_t>& order) const {
    std::vector<ActivityTally> tallies;
    std::vector<std::uint32_t> of;
    std::uint64_t left_out = 0;
    for_each_traced_work(path, [&](const TracePath& one, std::uint32_t traced) {
      tallies.insert(tallies.end(), one.activities.begin(), one.activities.end());
      of.resize(tallies.size(), traced);
      left_out += one.activities_left_out;
    });
    if (tallies.empty()) return;
    CallDetails::Calls work = calls_.of(tallies);
    for (nlohmann::json& call : work.calls) frame.detail["calls"].push_back(std::move(call));
    if (left_out != 0) frame.detail["device_work_left_out"] = left_out;
    add_kernel_frames(std::move(work.launches), of, frame, order);
  }

  Frame make_kernel_frame(CallDetails::Launch launch) const {
    Frame frame;
    frame.layer = Layer::device;
    frame.name = qualified_name(launch.symbol);
    frame.calls = launch.calls;
    frame.detail = std::move(launch.detail);
    if (options_.times && frame.detail.contains("duration_ns"))
      frame.detail["time"] = frame.detail["duration_ns"];
    frame.source = definition_of(
        {canonical_symbol(launch.symbol), source_file_of(launch.symbol, {}), "libtorch_cuda.so"});
    frame.symbol = std::move(launch.symbol);
    return frame;
  }

  // Describes the dispatcher's choice, using all of the trace's paths that this path stands for.
  void describe_step(const Path& path, const DispatcherStep& step,
                     const std::optional<std::string>& op, nlohmann::json& detail) const {
    detail["step"] = step.redispatch ? "redispatch" : "call";
    std::vector<OpTally> ops;
    std::vector<ArgumentTally> arguments;
    std::uint64_t left_out = 0;
    for_each_traced(path, [&](const TracePath& one) {
      ops.insert(ops.end(), one.ops.begin(), one.ops.end());
      arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
      left_out += one.ops_left_out;
    });
    bool unboxed = false;
    for_each_traced(path, [&](const TracePath& one) {
      unboxed =
          unboxed || calls_unboxed_[static_cast<std::size_t>(&one - trace_.paths.data())] != 0;
    });
    dispatch_.add(detail, {.op = op ? std::string_view(*op) : std::string_view(),
                           .redispatch = step.redispatch,
                           .ops = ops,
                           .arguments = arguments,
                           .ops_left_out = left_out,
                           .unboxed = unboxed,
                           .by_threads = path.threads > 1});
  }

  // Finds the steps that called a kernel unboxed.
  void note_unboxed() {
    calls_unboxed_.resize(trace_.paths.size());
    // For each path: the path itself, or the nearest one above it that doesn't hand an op on.
    std::vector<std::uint32_t> steps(trace_.paths.size(), kNone);
    for (std::uint32_t i = 0; i < trace_.paths.size(); ++i) {
      const TracePath& path = trace_.paths[i];
      const std::uint32_t above = path.parent == kNone ? kNone : steps[path.parent];
      const bool is_function = path.kind == PathKind::function && path.what != kNone;
      const bool hands_on = is_function && role_of(trace_.functions[path.what].symbol).hands_op_on;
      steps[i] = hands_on ? above : i;
      if (above != kNone && is_function && facts(path.what).name.starts_with(kUnboxedKernel))
        calls_unboxed_[above] = 1;
    }
  }

  // Returns the time of all calls, of the shortest and of the longest, in nanoseconds.
  nlohmann::json times_of(const Path& path) const {
    std::uint64_t total = trace_.paths[path.traced].total_time;
    std::uint64_t shortest = trace_.paths[path.traced].shortest_time;
    std::uint64_t longest = trace_.paths[path.traced].longest_time;
    for (const std::uint32_t traced : path.also) {
      const TracePath& one = trace_.paths[traced];
      total += one.total_time;
      if (one.longest_time != 0) shortest = std::min(shortest, one.shortest_time);
      longest = std::max(longest, one.longest_time);
    }
    return {{"total", total}, {"shortest", shortest}, {"longest", longest}};
  }

  // Returns the op for a kernel or autograd frame: that of the dispatcher step or wrapper that
  // called it.
  std::optional<std::string> inherited_op(const Frame& frame, const Frame& parent) const {
    if (!parent.op || (frame.layer != Layer::kernel && frame.layer != Layer::autograd))
      return std::nullopt;
    if (dispatcher_step(parent.name) || is_wrapper(parent.name)) return parent.op;
    return std::nullopt;
  }

  // Sorts the children of a frame in the order of the trace's paths, which is the order of first
  // calls. On entry, the launched kernels and failed calls come first, followed by the called
  // frames in reverse order.
  static void put_in_order(std::vector<Frame>& children, const std::vector<std::uint32_t>& launched,
                           std::vector<std::uint32_t>& called) {
    const auto first_called =
        children.begin() + static_cast<std::ptrdiff_t>(children.size() - called.size());
    std::reverse(first_called, children.end());
    if (launched.empty() || called.empty()) return;
    std::reverse(called.begin(), called.end());
    std::vector<std::pair<std::uint32_t, std::size_t>> order;
    order.reserve(launched.size() + called.size());
    for (const std::uint32_t path : launched) order.emplace_back(path, order.size());
    for (const std::uint32_t path : called) order.emplace_back(path, order.size());
    std::ranges::stable_sort(order, {}, &std::pair<std::uint32_t, std::size_t>::first);
    std::vector<Frame> ordered;
    ordered.reserve(children.size());
    for (const auto& [path, at] : order) ordered.push_back(std::move(children[at]));
    children = std::move(ordered);
  }

  bool is_boxed_redispatch(std::uint32_t function) {
    if (function == kNone) return false;
    const std::optional<DispatcherStep>& step = facts(function).step;
    return step && step->op.empty() && step->redispatch;
  }

  std::vector<Frame> make_frames() {
    const std::vector<Path>& paths = shown_paths_.paths();
    Blocks<Frame> frames(paths.size());  // Shrinks as frames move into their parents.
    // For each frame: the paths in the trace of its launches and failed calls, and of its called
    // frames.
    std::vector<std::vector<std::uint32_t>> launched(paths.size()), called(paths.size());
    // For each path: the path itself, or the nearest one above it that is a dispatcher frame with
    // an op.
    std::vector<std::uint32_t> steps(paths.size(), kNone);
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const Path& path = paths[i];
      Frame& frame = frames[i];
      const Frame* const parent = path.parent == kNone ? nullptr : &frames[path.parent];
      frame = path.kind == PathKind::python ? make_python_frame(path)
              : path.kind == PathKind::node ? make_node_frame(path, parent)
              : path.kind == PathKind::op   ? make_op_frame(path)
                                            : make_native_frame(path, launched[i]);
      describe_work(path, frame, launched[i]);
      frame.thread = trace_.threads[path.thread].id;
      for (Frame& kernel : frame.children) kernel.thread = frame.thread;
      frame.calls = path.calls;
      if (const std::vector<std::uint32_t> lines = call_lines(path); !lines.empty()) {
        if (!frame.source) frame.source.emplace();
        frame.source->call_line = lines.front();
        if (path.call.column != 0)
          frame.source->call_range = {path.call.column, path.call.end_line, path.call.end_column};
        if (lines.size() > 1) frame.detail["call_lines"] = lines;
      }
      if (path.parent != kNone && !frame.op) frame.op = inherited_op(frame, frames[path.parent]);
      const std::uint32_t step = path.parent == kNone ? kNone : steps[path.parent];
      // A boxed redispatch doesn't name its op; it continues the op of the step above.
      if (path.kind == PathKind::function && !frame.op && step != kNone &&
          is_boxed_redispatch(path.what))
        frame.op = frames[step].op;
      steps[i] =
          frame.op && frame.layer == Layer::dispatcher ? static_cast<std::uint32_t>(i) : step;
      if (options_.times) frame.detail["time"] = times_of(path);
    }
    std::vector<std::size_t> children(paths.size());
    for (const Path& path : paths)
      if (path.parent != kNone) ++children[path.parent];
    for (std::size_t i = 0; i < paths.size(); ++i)
      frames[i].children.reserve(frames[i].children.size() + children[i]);
    // Parents come before their children, so from the end every frame is complete when it is
    // moved.
    std::vector<Frame> roots;
    for (std::size_t i = paths.size(); i-- > 0;) {
      put_in_order(frames[i].children, launched[i], called[i]);
      hand_down_calls(paths[i], frames[i]);
      const std::uint32_t parent = paths[i].parent;
      (parent == kNone ? roots : frames[parent].children).push_back(std::move(frames[i]));
      if (parent != kNone) called[parent].push_back(paths[i].traced);
      frames.drop_from(i);
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
  const DispatchDetails dispatch_;
  const CallDetails calls_;
  std::vector<std::uint8_t> calls_unboxed_;  // By path of the trace.
  PathSet every_path_;
  PathSet shown_paths_;
  bool any_lead_ = false;  // A path other than Python code is always shown.
};

}  // namespace

Report merge(const Trace& trace, const Index* index, const MergeOptions& options) {
  return Merge(trace, index, options).run();
}

}  // namespace optrace
