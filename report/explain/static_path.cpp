#include "report/explain/static_path.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <functional>
#include <queue>
#include <set>
#include <system_error>
#include <tuple>
#include <unordered_set>

#include <fmt/format.h>

#include "report/locate/locate_query.h"
#include "report/locate/op_spelling.h"
#include "report/model/layers.h"
#include "report/model/symbol_name.h"

namespace optrace {
namespace {

// Costs of steps, by which the distance between functions is measured. A call of an op leads to
// another part of PyTorch, so functions that a kernel calls directly are nearer than other ops.
constexpr unsigned kCallCost = 2;
constexpr unsigned kOpCost = 5;
constexpr unsigned kRelatedOpCost = 3;
constexpr unsigned kStubCost = 1;
constexpr unsigned kVariantCost = 8;
constexpr unsigned kStrangerCost = 6;
constexpr unsigned kFarthest = 70;

// Beginnings of nested names (after `_ZN` and qualifiers) that are not followed: checks,
// containers, tensors' accessors and tensor iterators. None of them does work of its own.
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

// Ops with which kernels allocate, copy and inspect tensors. Following them would lead from every
// op to the kernels of copy_ and fill_.
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

// Words in names that stand for a variant of an op. A function whose name has a word that the op's
// name lacks is for unusual arguments.
constexpr auto kVariants = std::to_array<std::string_view>(
    {"transpose", "backward", "depthwise", "dilated", "complex", "sparse", "quantized", "nested",
     "legacy", "slow", "double", "_math", "_bias", "miopen", "vdot", "_conj", "nnpack", "choice",
     "overrideable"});

// Words in names that stand for another device.
constexpr auto kNotForCpu = std::to_array<std::string_view>({"cudnn", "cuda"});
constexpr auto kNotForOthers = std::to_array<std::string_view>({"mkldnn", "_cpu"});

// Words in the names of many ops. Two ops that share only such a word are not related.
constexpr auto kCommonWords = std::to_array<std::string_view>(
    {"out",    "forward",   "backward", "impl",       "index",   "native", "for",
     "from",   "use",       "cpu",      "cuda",       "cudnn",   "mkldnn", "miopen",
     "sparse", "quantized", "nested",   "functional", "inplace", "kernel", "stub",
     "tensor", "scalar",    "and",      "with",       "the",     "choice"});

constexpr std::size_t kShortestStem = 3;  // Letters, as in `sum`, `max`, `rnn`.

// Arithmetic operators on tensors (ATen/TensorOperators.h), which only prepare numbers.
constexpr auto kOperators =
    std::to_array<std::string_view>({"2atpl", "2atmi", "2atml", "2atdv", "2atrm", "2ator"});

// Libraries that work on host memory only. All others work on memory of CUDA devices only.
constexpr auto kHostLibraries = std::to_array<std::string_view>(
    {"oneDNN", "MKL", "BLAS", "BLAS/LAPACK", "FBGEMM", "XNNPACK", "NNPACK", "QNNPACK"});

// Returns the part after `_ZN` and the qualifiers of a member function (`K`, `R`, `O`); empty for
// other names.
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
  // Of Tensor's constructors, destructors and operators, only operator[] is followed. Other members
  // call ops.
  constexpr std::string_view kTensor = "2at6Tensor";
  if (name.starts_with(kTensor) &&
      (name.size() == kTensor.size() || name[kTensor.size()] < '0' || name[kTensor.size()] > '9'))
    return name.substr(kTensor.size()).starts_with("ix");
  return std::none_of(kNotFollowed.begin(), kNotFollowed.end(),
                      [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Returns true for the kernel of a housekeeping op, called without the dispatcher:
// `at::native::copy_`.
bool is_housekeeping(std::string_view symbol) {
  constexpr std::string_view kScope = "2at6native";
  if (!nested_name(symbol).starts_with(kScope)) return false;
  const std::vector<std::string> parts = symbol_components(symbol);
  return parts.size() == 3 && is_housekeeping_op(parts.back());
}

// Returns the unambiguous op name in `_ZN2at4_ops10add_Tensor4callE...`; empty for other symbols.
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

// Returns the words of a name that are not common, without a number of dimensions at their end:
// `scaled`, `dot`, `product`, `attention` for `_scaled_dot_product_attention`, `conv` for `conv2d`.
std::vector<std::string> stems_of(std::string_view name) {
  std::vector<std::string> stems;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('_'), name.size());
    std::string word(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
    if (word.size() > 2 && word.back() == 'd' && word[word.size() - 2] >= '1' &&
        word[word.size() - 2] <= '3')
      word.resize(word.size() - 2);
    if (std::find(kCommonWords.begin(), kCommonWords.end(), word) == kCommonWords.end() &&
        !word.empty())
      stems.push_back(std::move(word));
  }
  return stems;
}

// Returns true if a word of the name is one of `stems`, or one of the two begins with the other
// (`convolution` and `conv`).
bool is_related(const std::vector<std::string>& stems, std::string_view name) {
  for (const std::string& word : stems_of(name))
    for (const std::string& stem : stems) {
      if (word == stem) return true;
      const std::size_t shorter = std::min(word.size(), stem.size());
      if (shorter >= kShortestStem && (word.starts_with(stem) || stem.starts_with(word)))
        return true;
    }
  return false;
}

// Returns true for hand-written source files. Each has a subject, while a header serves many.
bool is_own_source(std::string_view file) {
  return (file.ends_with(".cpp") || file.ends_with(".cu")) && !file.starts_with("build/");
}

// Ranks functions that differ only in their precision (`cublasSgemm`, `dgemm_`): first PyTorch's
// default dtype, then functions that take the type as an argument.
int precision_rank(std::string_view name) {
  for (const std::string_view prefix :
       {"cublas", "cusolverDn", "cusparse", "cblas_", "LAPACKE_", "mkl_sparse_"})
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  if (name.empty()) return 1;
  switch (name.front()) {
    case 'S':
    case 's':
      return 0;
    case 'D':
    case 'd':
      return 2;
    case 'C':
    case 'c':
      return 3;
    case 'Z':
    case 'z':
      return 4;
    default:
      return 1;
  }
}

// Returns the library of a callee. Demangles only names that may belong to one.
std::string_view library_of(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return library_name(symbol);
  // C++ overloads declared in a library's header: cublasGemmEx.
  if (symbol.size() > 2 && symbol[2] >= '1' && symbol[2] <= '9') {
    const std::string name = qualified_name(symbol);
    const std::string_view library = library_name(name);
    return library.starts_with("cu") ? library : std::string_view();
  }
  const std::string_view name = nested_name(symbol);
  for (const std::string_view space : {"5ideep", "4dnnl", "6fbgemm"})
    if (name.starts_with(space)) return library_name(qualified_name(symbol));
  return {};
}

// Splits `CPU.AVX2` into the device and the CPU capability.
std::pair<std::string_view, std::string_view> split_stub_key(std::string_view key) {
  const std::size_t dot = key.find('.');
  return {key.substr(0, dot), dot == std::string_view::npos ? "" : key.substr(dot + 1)};
}

// Among adjacent paths that differ only in their last function, moves the one for the default dtype
// to the front.
void prefer_default_precision(std::vector<StaticPath>& paths) {
  const auto same_way = [](const StaticPath& a, const StaticPath& b) {
    return a.library == b.library && a.bookkeeping == b.bookkeeping && a.stopped.empty() &&
           !a.library.empty() && a.steps.size() == b.steps.size() && a.steps.size() > 1 &&
           qualified_name(a.steps[a.steps.size() - 2].symbol) ==
               qualified_name(b.steps[b.steps.size() - 2].symbol);
  };
  for (auto first = paths.begin(); first != paths.end();) {
    auto last = std::find_if_not(first, paths.end(),
                                 [&](const StaticPath& one) { return same_way(*first, one); });
    if (last == first) ++last;
    std::stable_sort(first, last, [](const StaticPath& a, const StaticPath& b) {
      return precision_rank(qualified_name(a.steps.back().symbol)) <
             precision_rank(qualified_name(b.steps.back().symbol));
    });
    first = last;
  }
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

// One search with Dijkstra's algorithm, over the functions and ops that one op can lead to.
struct StaticPaths::Search {
  struct Node {
    StepKind kind;
    std::string symbol;       // The symbol, or the op's name.
    std::string source_file;  // File of the caller; distinguishes functions with one symbol.
    std::string note;
    std::size_t parent;
    std::uint32_t call_line;
    unsigned cost;
    unsigned detours = 0;
    unsigned variants = 0;
    std::string_view file = {};  // File of the definition; set on the visit.
    bool leads = false;          // Leads to an end.
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // The role of a callee in a search, the same at each of its call sites.
  struct Callee {
    bool followed = false;
    StepKind kind = StepKind::function;
    std::string op;  // The op, if it calls one.
    unsigned variant_cost = 0;
  };

  StaticPaths& paths;
  std::string_view key;
  bool through_housekeeping = false;
  std::vector<std::string> stems;  // Stems of the op's name.
  std::vector<Node> nodes;
  std::unordered_set<std::string> visited;
  std::unordered_map<const char*, Callee> callees;
  using Next = std::pair<unsigned, std::size_t>;  // Cost, node.
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  std::vector<std::size_t> ends;

  void add(Node node) {
    if (node.cost > kFarthest) return;
    if (node.parent != kNone) {
      node.detours += nodes[node.parent].detours;
      node.variants += nodes[node.parent].variants;
    }
    const unsigned cost = node.cost;
    nodes.push_back(std::move(node));
    queue.emplace(cost, nodes.size() - 1);
  }

  void run(std::string_view op) {
    stems = stems_of(split_op_name(op).base);
    through_housekeeping = through_housekeeping || is_housekeeping_op(op);
    add({StepKind::op, std::string(op), "", "", kNone, 0, 0});
    while (!queue.empty() && visited.size() < kMaxVisited) {
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
    const auto add_words = [&](const auto& words) {
      for (const std::string_view word : words)
        if (name.find(word) != std::string_view::npos &&
            nodes.front().symbol.find(word) == std::string::npos)
          cost += kVariantCost;
    };
    add_words(kVariants);
    // Symbols contain the namespaces of parameters, ops' names do not.
    if (!name.starts_with("_Z")) {
      if (key == "CPU")
        add_words(kNotForCpu);
      else
        add_words(kNotForOthers);
    }
    return cost;
  }

  // Returns true if a function's unqualified name is related to the op's name.
  bool is_related_function(std::string_view symbol) const {
    const std::vector<std::string> parts = symbol_components(symbol);
    return !parts.empty() && is_related(stems, parts.back());
  }

  // Returns true if a kernel is named after the op, in any spelling: LayerNormForwardCUDAKernel.
  bool has_stem(std::string_view name) const {
    const std::size_t scope = name.substr(0, name.find('<')).rfind("::");
    std::string lower(scope == std::string_view::npos ? name : name.substr(scope + 2));
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return std::any_of(stems.begin(), stems.end(), [&](const std::string& stem) {
      return stem.size() >= kShortestStem && lower.find(stem) != std::string::npos;
    });
  }

  // Notes the file of a function. A direct call of another op's kernel is a detour, like a call of
  // that op.
  void look_at(std::size_t at) {
    Node& node = nodes[at];
    const auto found = paths.index_.find_definition(node.symbol, node.source_file);
    if (!found) return;
    node.file = found->location.file;
    if (node.parent == kNone || nodes[node.parent].kind != StepKind::function) return;
    const std::string_view caller = nodes[node.parent].file;
    if (is_own_source(caller) && is_own_source(node.file) && caller != node.file &&
        node.symbol.find("kernel") != std::string::npos && !is_related_function(node.symbol))
      ++node.detours;
  }

  const Callee& callee_of(std::string_view symbol) {
    // An index stores a symbol once, so its address identifies it.
    const auto [at, added] = callees.try_emplace(symbol.data());
    Callee& callee = at->second;
    if (!added) return callee;
    if (std::string op = paths.op_of(symbol); !op.empty()) {
      callee = {through_housekeeping ? makes_no_tensor(op) : !is_housekeeping_op(op), StepKind::op,
                std::move(op), 0};
    } else if (const std::string_view library = library_of(symbol); !library.empty()) {
      const bool host =
          std::find(kHostLibraries.begin(), kHostLibraries.end(), library) != kHostLibraries.end();
      callee = {host == (key == "CPU"), StepKind::library, {}, 0};
    } else {
      callee.followed = is_followed(symbol) && (through_housekeeping || !is_housekeeping(symbol));
    }
    callee.variant_cost = variant_cost(callee.op.empty() ? symbol : std::string_view(callee.op));
    return callee;
  }

  void follow_function(std::size_t at) {
    look_at(at);
    const std::string symbol = nodes[at].symbol;
    const std::string file = nodes[at].source_file;
    const unsigned cost = nodes[at].cost;
    std::unordered_set<const char*> seen;  // Only the first of several calls counts.
    for (const CallSite& site : paths.index_.calls_of(symbol, file)) {
      StepKind kind = StepKind::function;
      unsigned more = kCallCost;
      unsigned detours = 0;
      unsigned variants = 0;
      std::string_view name = site.callee;
      if (site.kind == CallKind::launch) {
        kind = StepKind::device_kernel;
      } else if (site.kind == CallKind::stub) {
        kind = StepKind::stub;
        variants = variant_cost(site.callee);
        more = kStubCost + variants;
      } else {
        const Callee& callee = callee_of(site.callee);
        if (!callee.followed) continue;
        kind = callee.kind;
        variants = callee.variant_cost;
        more += variants;
        if (kind == StepKind::op) {
          name = callee.op;
          const bool related = is_related(stems, split_op_name(name).base);
          detours = related ? 0 : 1;
          more = (related ? kRelatedOpCost : kOpCost) + variants;
        } else if (site.kind == CallKind::reference) {
          // The function that takes its address launches the kernel, or calls the stub.
          const auto handed_on = paths.index_.find_definition(site.callee);
          if (handed_on && handed_on->kind == DefinitionKind::device_kernel)
            kind = StepKind::device_kernel;
          if (handed_on && handed_on->kind == DefinitionKind::stub) kind = StepKind::stub;
        }
      }
      if (!seen.insert(site.callee.data()).second || visited.contains(mark_of(kind, name)))
        continue;
      add({kind, std::string(name), std::string(site.location.file), "", at, site.location.line,
           cost + more, detours, variants});
    }
  }

  // Returns the key of a node. Nodes with the same key are visited once.
  static std::string mark_of(StepKind kind, std::string_view symbol) {
    return std::string(1, static_cast<char>('0' + static_cast<int>(kind))).append(symbol);
  }

  // Returns false for ops that lead nowhere for any op: those that allocate or test tensors.
  static bool makes_no_tensor(std::string_view op) {
    const OpName parts = split_op_name(op);
    return !parts.base.starts_with("empty") && !parts.base.starts_with("new_") &&
           !parts.base.starts_with("resize") && !parts.base.starts_with("is_");
  }

  // Returns an op's kernel: the function behind the wrapper, if there is one.
  std::optional<std::size_t> own_kernel(std::size_t op) const {
    for (std::size_t at = op + 1; at < nodes.size(); ++at) {
      if (nodes[at].parent != op || nodes[at].kind != StepKind::function) continue;
      for (std::size_t behind = at + 1; behind < nodes.size(); ++behind)
        if (nodes[behind].parent == at && nodes[behind].kind == StepKind::function &&
            nested_name(nodes[at].symbol).find("wrapper_") != std::string_view::npos &&
            nested_name(nodes[behind].symbol).starts_with("2at6native"))
          return behind;
      return at;
    }
    return std::nullopt;
  }

  // Returns the ops related to the op's name below which nothing was reached; of several in a row,
  // the last.
  std::vector<std::size_t> dead_ends() {
    for (const std::size_t end : ends)
      for (std::size_t at = end; at != kNone && !nodes[at].leads; at = nodes[at].parent)
        nodes[at].leads = true;
    std::vector<std::size_t> found;
    for (std::size_t at = nodes.size(); at-- > 0;) {
      const Node& node = nodes[at];
      if (node.kind != StepKind::op || node.leads || node.detours != 0) continue;
      if (first_of(node.symbol) != at) continue;
      found.push_back(at);
      // The ops above it have an end now.
      for (std::size_t above = at; above != kNone && !nodes[above].leads;
           above = nodes[above].parent)
        nodes[above].leads = true;
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

  // Returns true if one of these ops has a kernel for this very device. Such a kernel has a loop of
  // its own, and the ops that it uses for preparation are not of interest.
  bool computes_itself(const std::vector<std::size_t>& ops_without_ends) const {
    return std::ranges::any_of(
        ops_without_ends, [&](std::size_t op) { return nodes[op].note == key && own_kernel(op); });
  }

  // Returns the cheapest node of an op, the one that is visited. There is a node for each call.
  std::size_t first_of(std::string_view op) const {
    std::size_t best = kNone;
    for (std::size_t at = 0; at < nodes.size(); ++at)
      if (nodes[at].kind == StepKind::op && nodes[at].symbol == op &&
          (best == kNone || nodes[at].cost < nodes[best].cost))
        best = at;
    return best;
  }

  // Returns why nothing is known below an op.
  std::string why_stopped(std::size_t op) const {
    const DispatchEntry entry = paths.table(nodes[op].symbol).entry(key);
    if (!entry.registration) return std::string("no kernel is registered for ").append(key);
    const auto kernel = own_kernel(op);
    if (!kernel) return fmt::format("the search ends after {} functions and ops", kMaxVisited);
    if (!paths.index_.find_definition(nodes[*kernel].symbol, nodes[*kernel].source_file))
      return "the index has no definition of this kernel";
    for (const CallSite& site :
         paths.index_.calls_of(nodes[*kernel].symbol, nodes[*kernel].source_file)) {
      if (site.kind != CallKind::call || !is_followed(site.callee) ||
          paths.index_.find_definition(site.callee) || !paths.op_of(site.callee).empty())
        continue;
      const std::string name = qualified_name(site.callee);
      if (name.starts_with("at::") || name.starts_with("pytorch_"))
        return "the index has no definition of " + name + ", which it calls";
    }
    for (std::size_t at = *kernel + 1; at < nodes.size(); ++at) {
      if (visited.contains(mark_of(nodes[at].kind, nodes[at].symbol))) continue;
      for (std::size_t above = at; above != kNone; above = nodes[above].parent)
        if (above == op)
          return fmt::format("the search ends after {} functions and ops", kMaxVisited);
    }
    return "the index has no library call, launch or stub below it";
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
        step.detour = node.parent != kNone && !is_related(stems, split_op_name(node.symbol).base);
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
    if (last.kind == StepKind::device_kernel) path.named = has_stem(qualified_name(last.symbol));
    path.detours = nodes[end].detours;
    path.variants = nodes[end].variants;
    return path;
  }
};

std::vector<StaticPath> StaticPaths::find(std::string_view op, std::string_view key) {
  Search plain{*this, key, false, {}, {}, {}, {}, {}, {}};
  plain.run(op);
  Search thorough{*this, key, true, {}, {}, {}, {}, {}, {}};
  std::vector<std::size_t> dead = plain.dead_ends();
  if (plain.ends.empty() && !plain.through_housekeeping && !plain.computes_itself(dead)) {
    thorough.run(op);
    if (!thorough.ends.empty()) dead = thorough.dead_ends();
  }
  const Search& search = thorough.ends.empty() ? plain : thorough;
  std::vector<StaticPath> paths;
  std::set<std::string_view> seen;
  const std::vector<std::size_t> ends = search.ends;
  for (const std::size_t end : ends)
    if (seen.insert(search.nodes[end].symbol).second) paths.push_back(search.path_to(end));
  for (const std::size_t last : dead) {
    const auto kernel = search.own_kernel(last);
    if (!kernel && last == 0) continue;  // The op itself has no kernel there.
    StaticPath path = search.path_to(kernel.value_or(last));
    path.stopped = search.why_stopped(last);
    path.has_kernel = kernel.has_value();
    paths.push_back(std::move(path));
  }
  // Computing comes before bookkeeping, paths related to the op's name before detours and other
  // variants, libraries before PyTorch's own kernels, and those before copies by the CUDA runtime.
  // Short paths come before long ones, which is the order in which they were found.
  std::stable_sort(paths.begin(), paths.end(), [](const StaticPath& a, const StaticPath& b) {
    const auto rank = [](const StaticPath& path) {
      return std::tuple(!path.has_kernel, path.bookkeeping, path.detours, path.variants,
                        path.library == "CUDA", !path.stopped.empty(), path.library.empty(),
                        !path.named);
    };
    return rank(a) < rank(b);
  });
  prefer_default_precision(paths);
  return paths;
}

std::vector<CalledOp> StaticPaths::ops_called(std::string_view symbol) {
  constexpr unsigned kDeepest = 6;
  constexpr std::size_t kMost = 400;  // Functions.
  struct Reached {
    std::string symbol;
    std::string file;
    std::uint32_t line;  // Line in the first function.
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
  ops.reserve(found.size());
  for (const auto& [name, line] : found) ops.push_back({name, line, is_housekeeping_op(name)});
  std::stable_sort(ops.begin(), ops.end(), [](const CalledOp& a, const CalledOp& b) {
    return std::tuple(a.housekeeping, a.line) < std::tuple(b.housekeeping, b.line);
  });
  return ops;
}

}  // namespace optrace
