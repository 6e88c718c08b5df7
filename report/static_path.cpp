#include "report/static_path.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <queue>
#include <set>
#include <system_error>
#include <tuple>
#include <unordered_set>

#include "report/layers.h"
#include "report/op_spelling.h"
#include "report/symbol_name.h"

namespace optrace {
namespace {

// How far apart two functions are. An op is a step to another part of PyTorch; what a kernel does
// by itself is nearer than what it has other ops do.
constexpr unsigned kCallCost = 2;
constexpr unsigned kOpCost = 5;
constexpr unsigned kStubCost = 1;
constexpr unsigned kVariantCost = 8;
constexpr unsigned kStrangerCost = 6;
constexpr unsigned kFarthest = 70;

// Starts of nested names (`_ZN` and qualifiers before them left out) that are not followed: checks,
// containers, tensors' accessors and tensor iterators. None of them leads to work of its own.
constexpr auto kNotFollowed = std::to_array<std::string_view>({
    "3c10",
    "S",  // std::
    "9__gnu_cxx",
    "2at10TensorBase",
    "2at14TensorIterator",
    "2at18TensorIteratorBase",
    "2at20TensorIteratorConfig",
    "2at9TensorArg",
    "2at17TensorGeometry",
    "2at7Context",
    "2at13globalContext",
    "2at8internal",
    "2at15namedinference",
    "2at16NoNamesGuard",
    "2at4impl",
    "2at6detail",
    "2at13DeprecatedTypeProperties",
    "2at9Generator",
    "2at7TracerType",
    "2at4meta",
    "5torch3jit6tracer",
    "5torch8autograd12VariableInfo",
    "5torch8autograd13SavedVariable",
    "2at6native13resize_output",
    "2at6native16resize_impl_",
    "2at6native17resize_bytes_",
    "2at6native21maybe_resize_storage_",
    "6caffe28TypeMeta",
    "3fmt",
    "8nlohmann",
    "8pybind11",
});

// Ops that kernels call to make room, to copy and to look: following them would lead from every op
// to the kernels of copy_ and fill_.
constexpr auto kHousekeepingOps = std::to_array<std::string_view>({
    "empty*",
    "new_*",
    "*_like",
    "zeros",
    "ones",
    "full",
    "contiguous",
    "clone",
    "copy_",
    "_copy_from*",
    "to",
    "_to_copy",
    "_to_cpu",
    "type_as",
    "resize_*",
    "resize_as_*",
    "set_",
    "fill_",
    "zero_",
    "item",
    "is_*",
    "equal",
    "arange",
    "range",
    "lift*",
    "detach*",
    "alias*",
    "expand*",
    "view*",
    "reshape*",
    "_reshape*",
    "as_strided*",
    "squeeze*",
    "unsqueeze*",
    "select",
    "narrow",
    "transpose*",
    "permute",
    "slice*",
    "t",
    "t_",
    "movedim",
    "flatten",
    "unflatten",
    "size",
    "stride",
    "numel",
    "scalar_tensor",
    "_unsafe_*",
    "split*",
    "chunk",
    "unbind",
    "conj",
    "_conj*",
    "resolve_*",
    "_neg_view",
    "real",
    "imag",
    "allclose",
    "output_nr",
    "_version",
    "result_type",
    "can_cast",
    "promote_types",
    "cpu",
    "cuda",
    "_efficientzerotensor",
    "_local_scalar_dense",
    "_nested_tensor_*",
    "_assert_*",
    "_use_cudnn_ctc_loss",
});

// Words of names that stand for another variant of an op: what has one that the op's own name lacks
// is for other arguments than most.
constexpr auto kVariants = std::to_array<std::string_view>(
    {"transpose", "backward", "depthwise", "dilated", "complex", "sparse", "quantized", "nested",
     "legacy", "slow", "double", "_math"});

// Arithmetic on tensors, as C++ writes it (ATen/TensorOperators.h): it prepares numbers on the way.
constexpr auto kOperators =
    std::to_array<std::string_view>({"2atpl", "2atmi", "2atml", "2atdv", "2atrm", "2ator"});

// Libraries that take memory of the host only, and of CUDA devices only.
constexpr auto kHostLibraries = std::to_array<std::string_view>(
    {"oneDNN", "MKL", "BLAS", "BLAS/LAPACK", "FBGEMM", "XNNPACK", "NNPACK", "QNNPACK"});

// Behind `_ZN` and the qualifiers of a member function (`K`, `R`, `O`); empty for other names.
std::string_view nested_name(std::string_view symbol) {
  if (!symbol.starts_with("_ZN")) return {};
  symbol.remove_prefix(3);
  while (!symbol.empty() && (symbol[0] == 'K' || symbol[0] == 'R' || symbol[0] == 'O'))
    symbol.remove_prefix(1);
  return symbol;
}

bool is_followed(std::string_view symbol) {
  const std::string_view name = nested_name(symbol);
  if (name.empty()) return symbol.starts_with("_Z") && !symbol.starts_with("_ZS");
  // Constructors, destructors and operators of tensors; its other members call ops.
  constexpr std::string_view kTensor = "2at6Tensor";
  if (name.starts_with(kTensor) &&
      (name.size() == kTensor.size() || name[kTensor.size()] < '0' || name[kTensor.size()] > '9'))
    return name.substr(kTensor.size()).starts_with("ix");
  return std::none_of(kNotFollowed.begin(), kNotFollowed.end(),
                      [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// The op in `_ZN2at4_ops10add_Tensor4callE...`, unambiguous; empty for other symbols.
std::string_view dispatched_op(std::string_view symbol) {
  constexpr std::string_view kScope = "2at4_ops";
  std::string_view name = nested_name(symbol);
  if (!name.starts_with(kScope)) return {};
  name.remove_prefix(kScope.size());
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), size);
  if (error != std::errc()) return {};
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  if (size >= name.size()) return {};
  const std::string_view step = name.substr(size);
  if (!step.starts_with("4callE") && !step.starts_with("10redispatchE")) return {};
  return name.substr(0, size);
}

// The library of a callee, without demangling what can't be of one.
std::string_view library_of(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return library_name(symbol);
  const std::string_view name = nested_name(symbol);
  for (const std::string_view space : {"5ideep", "4dnnl", "6fbgemm"})
    if (name.starts_with(space)) return library_name(qualified_name(symbol));
  return {};
}

// `CPU.AVX2` is for the CPU: the device, and the capability behind it.
std::pair<std::string_view, std::string_view> split_stub_key(std::string_view key) {
  const std::size_t dot = key.find('.');
  return {key.substr(0, dot), dot == std::string_view::npos ? "" : key.substr(dot + 1)};
}

}  // namespace

std::string_view name_of(StepKind kind) {
  constexpr std::array<std::string_view, 5> kNames = {"op", "function", "stub", "device kernel",
                                                      "library"};
  return kNames.at(static_cast<std::size_t>(kind));
}

bool is_housekeeping_op(std::string_view name) {
  const OpName parts = split_op_name(name);
  return std::any_of(kHousekeepingOps.begin(), kHousekeepingOps.end(),
                     [&](std::string_view row) { return matches_pattern(parts.base, row); });
}

StaticPaths::StaticPaths(const SourceIndexes& index)
    : index_(index), fallbacks_(index.registrations_of("_")) {}

const DispatchTable& StaticPaths::table(const std::string& op) {
  const auto found = tables_.find(op);
  if (found != tables_.end()) return found->second;
  return tables_.emplace(op, DispatchTable(index_.registrations_of(op), fallbacks_)).first->second;
}

std::string StaticPaths::op_of(std::string_view symbol) const {
  const std::string_view name = dispatched_op(symbol);
  if (name.empty()) return {};
  const auto entry = index_.find_op(name);
  return entry ? std::string(entry->name) : std::string();
}

// One search: Dijkstra's, over the functions and ops that one op can lead to.
struct StaticPaths::Search {
  struct Node {
    StepKind kind;
    std::string symbol;       // Or the op's name.
    std::string source_file;  // Of the caller: tells local functions of one symbol apart.
    std::string note;
    std::size_t parent;
    std::uint32_t call_line;
    unsigned cost;
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // What a callee is to a search, the same at each of its call sites.
  struct Callee {
    bool followed = false;
    StepKind kind = StepKind::function;
    std::string op;  // Where that is what it calls.
    unsigned variant_cost = 0;
  };

  StaticPaths& paths;
  std::string_view key;
  std::vector<Node> nodes;
  std::unordered_set<std::string> visited;
  std::unordered_map<const char*, Callee> callees;
  using Next = std::pair<unsigned, std::size_t>;  // Cost, node.
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  std::vector<std::size_t> ends;

  void add(Node node) {
    if (node.cost > kFarthest) return;
    const unsigned cost = node.cost;
    nodes.push_back(std::move(node));
    queue.emplace(cost, nodes.size() - 1);
  }

  void run(std::string_view op) {
    add({StepKind::op, std::string(op), "", "", kNone, 0, 0});
    while (!queue.empty() && visited.size() < kMostVisited) {
      const std::size_t at = queue.top().second;
      queue.pop();
      if (!visited.insert(mark_of(nodes[at].kind, nodes[at].symbol)).second) continue;
      switch (nodes[at].kind) {
        case StepKind::op:
          follow_op(at);
          break;
        case StepKind::function:
          follow_function(at);
          break;
        case StepKind::stub:
          follow_stub(at);
          break;
        case StepKind::device_kernel:
        case StepKind::library:
          ends.push_back(at);
          break;
      }
    }
  }

  void follow_op(std::size_t at) {
    const DispatchEntry entry = paths.table(nodes[at].symbol).entry(key);
    if (!entry.registration || entry.registration->function.empty()) return;
    const std::string_view alias = alias_key(entry.reason);
    nodes[at].note = alias.empty() ? entry.key : alias;
    add({StepKind::function, std::string(entry.registration->function),
         std::string(entry.registration->location.file), "", at, 0, nodes[at].cost});
  }

  void follow_stub(std::size_t at) {
    std::map<std::string_view, std::string> capabilities;  // By function.
    std::map<std::string_view, std::string_view> files;
    for (const Registration& one : paths.index_.registrations_of(nodes[at].symbol)) {
      if (one.kind != RegistrationKind::stub || one.function.empty()) continue;
      const auto [device, capability] = split_stub_key(one.key);
      if (device != key) continue;
      std::string& all = capabilities[one.function];
      if (!capability.empty()) all += (all.empty() ? "" : ", ") + std::string(capability);
      files.emplace(one.function, one.location.file);
    }
    for (const auto& [function, all] : capabilities) {
      add({StepKind::function, std::string(function), std::string(files[function]), all, at, 0,
           nodes[at].cost + kStubCost});
      ends.push_back(nodes.size() - 1);
    }
  }

  unsigned variant_cost(std::string_view name) const {
    unsigned cost = 0;
    const std::string_view nested = nested_name(name);
    if (std::any_of(kOperators.begin(), kOperators.end(),
                    [&](std::string_view start) { return nested.starts_with(start); }))
      cost += kStrangerCost;
    for (const std::string_view word : kVariants)
      if (name.find(word) != std::string_view::npos &&
          nodes.front().symbol.find(word) == std::string::npos)
        cost += kVariantCost;
    return cost;
  }

  const Callee& callee_of(std::string_view symbol) {
    // A symbol is stored once in an index, so its address stands for it.
    const auto [at, added] = callees.try_emplace(symbol.data());
    Callee& callee = at->second;
    if (!added) return callee;
    if (std::string op = paths.op_of(symbol); !op.empty()) {
      callee = {!is_housekeeping_op(op), StepKind::op, std::move(op), 0};
    } else if (const std::string_view library = library_of(symbol); !library.empty()) {
      const bool host =
          std::find(kHostLibraries.begin(), kHostLibraries.end(), library) != kHostLibraries.end();
      callee = {host == (key == "CPU"), StepKind::library, {}, 0};
    } else {
      callee.followed = is_followed(symbol);
    }
    callee.variant_cost = variant_cost(callee.op.empty() ? symbol : std::string_view(callee.op));
    return callee;
  }

  void follow_function(std::size_t at) {
    const std::string symbol = nodes[at].symbol;
    const std::string file = nodes[at].source_file;
    const unsigned cost = nodes[at].cost;
    std::unordered_set<const char*> seen;  // Of several calls, the first one's line counts.
    for (const CallSite& site : paths.index_.calls_of(symbol, file)) {
      StepKind kind = StepKind::function;
      unsigned more = kCallCost;
      std::string_view name = site.callee;
      if (site.kind == CallKind::launch) {
        kind = StepKind::device_kernel;
      } else if (site.kind == CallKind::stub) {
        kind = StepKind::stub;
        more = kStubCost + variant_cost(site.callee);
      } else {
        const Callee& callee = callee_of(site.callee);
        if (!callee.followed) continue;
        kind = callee.kind;
        more += callee.variant_cost;
        if (kind == StepKind::op) {
          name = callee.op;
          more = kOpCost + callee.variant_cost;
        }
      }
      if (!seen.insert(site.callee.data()).second || visited.contains(mark_of(kind, name)))
        continue;
      add({kind, std::string(name), std::string(site.location.file), "", at, site.location.line,
           cost + more});
    }
  }

  // What tells the nodes apart that are visited once.
  static std::string mark_of(StepKind kind, std::string_view symbol) {
    return std::string(1, static_cast<char>('0' + static_cast<int>(kind))).append(symbol);
  }

  // The op's kernel itself: the function behind the wrapper, if there is one.
  std::optional<std::size_t> own_kernel() const {
    std::optional<std::size_t> registered;
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      if (nodes[at].kind != StepKind::function) continue;
      if (nested_name(nodes[at].symbol).starts_with("2at6native")) return at;
      if (!registered) registered = at;
    }
    return registered;
  }

  StaticPath path_to(std::size_t end) const {
    StaticPath path;
    for (std::size_t at = end; at != kNone; at = nodes[at].parent) {
      const Node& node = nodes[at];
      PathStep step;
      step.kind = node.kind;
      step.note = node.note;
      step.call_line = node.call_line;
      if (node.kind == StepKind::op) {
        step.op = node.symbol;
      } else {
        step.symbol = node.symbol;
        if (node.kind != StepKind::library)
          if (const auto found = paths.index_.find_definition(node.symbol, node.source_file))
            step.location = found->location;
      }
      path.steps.push_back(std::move(step));
    }
    std::reverse(path.steps.begin(), path.steps.end());
    const PathStep& last = path.steps.back();
    if (last.kind == StepKind::library) {
      const std::string name = qualified_name(last.symbol);
      path.library = library_name(name);
      path.bookkeeping = is_library_bookkeeping(name);
    }
    return path;
  }
};

std::vector<StaticPath> StaticPaths::find(std::string_view op, std::string_view key) {
  Search search{*this, key, {}, {}, {}, {}, {}};
  search.run(op);
  std::vector<StaticPath> paths;
  std::set<std::string_view> seen;
  if (search.ends.empty())
    if (const auto kernel = search.own_kernel()) search.ends.push_back(*kernel);
  for (const std::size_t end : search.ends)
    if (seen.insert(search.nodes[end].symbol).second) paths.push_back(search.path_to(end));
  // What computes before what prepares, libraries before kernels of PyTorch's own, those before
  // copies by the CUDA runtime, near before far (the order in which they were found).
  std::stable_sort(paths.begin(), paths.end(), [](const StaticPath& a, const StaticPath& b) {
    const auto rank = [](const StaticPath& path) {
      return std::tuple(path.bookkeeping, path.library == "CUDA", path.library.empty());
    };
    return rank(a) < rank(b);
  });
  return paths;
}

std::vector<CalledOp> StaticPaths::ops_called(std::string_view symbol) {
  constexpr unsigned kDeepest = 6;
  constexpr std::size_t kMost = 400;  // Functions.
  struct Reached {
    std::string symbol;
    std::string file;
    std::uint32_t line;  // Of the first function.
    unsigned depth;
  };
  std::queue<Reached> queue;
  queue.push({std::string(symbol), "", 0, 0});
  std::unordered_set<std::string> visited;
  std::map<std::string, std::uint32_t> found;
  while (!queue.empty() && visited.size() < kMost) {
    const Reached at = std::move(queue.front());
    queue.pop();
    if (!visited.insert(at.symbol).second) continue;
    for (const CallSite& site : index_.calls_of(at.symbol, at.file)) {
      const std::uint32_t line = at.depth == 0 ? site.location.line : at.line;
      if (std::string op = op_of(site.callee); !op.empty())
        found.try_emplace(std::move(op), line);
      else if (at.depth < kDeepest && is_followed(site.callee))
        queue.push({std::string(site.callee), std::string(site.location.file), line, at.depth + 1});
    }
  }
  std::vector<CalledOp> ops;
  for (const auto& [name, line] : found) ops.push_back({name, line, is_housekeeping_op(name)});
  std::stable_sort(ops.begin(), ops.end(), [](const CalledOp& a, const CalledOp& b) {
    return std::tuple(a.housekeeping, a.line) < std::tuple(b.housekeeping, b.line);
  });
  return ops;
}

}  // namespace optrace
