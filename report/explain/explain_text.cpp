#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/explain/explain_output.h"
#include "report/model/symbol_name.h"

namespace optrace {
namespace {

constexpr std::string_view kDim = "2";
constexpr std::string_view kBold = "1";
constexpr std::string_view kOp = "33";
constexpr std::string_view kFunction = "32";
constexpr std::string_view kLibrary = "31";

constexpr std::size_t kFieldColumns = 12;
constexpr std::size_t kNameColumns = 46;  // Names are padded to this.
constexpr std::size_t kMaxWaysDown = 4;   // For one device, unless all are requested.
constexpr std::size_t kMaxOps = 6;        // Ops that a backward function calls.
constexpr std::size_t kMaxStubs = 3;

constexpr std::string_view kDerivatives = "tools/autograd/derivatives.yaml";

std::string padded(std::string_view text, std::size_t width) {
  std::string out(text);
  const std::size_t taken = columns(text);
  if (taken < width) out.append(width - taken, ' ');
  return out;
}

// Returns true for keys that the short answer shows: those of backends, autograd and autocast.
bool matters(const ExplainedKey& key) {
  const std::string_view name = key.entry.key;
  const DispatchReason reason = key.entry.reason;
  if (name == "CPU" || name == "CUDA" || name == "Meta") return true;
  if (reason == DispatchReason::missing || reason == DispatchReason::fallback) return false;
  if (name == "AutogradCPU" || name == "AutogradCUDA") return true;
  if (reason != DispatchReason::direct)
    return name == "FuncTorchBatched" || name == "NestedTensorCPU";
  for (const std::string_view backend :
       {"HIP", "XLA", "IPU", "XPU", "HPU", "VE", "Lazy", "MTIA", "PrivateUse1", "PrivateUse2",
        "PrivateUse3", "MPS", "Meta"})
    if (name.ends_with(backend)) return false;
  for (const std::string_view internal :
       {"Named", "Conjugate", "Negative", "Tracer", "Batched", "ZeroTensor", "Python",
        "FuncTorchGradWrapper", "BatchedNestedTensor", "VmapMode", "FuncTorchVmapMode"})
    if (name == internal) return false;
  return true;
}

class TextWriter {
 public:
  TextWriter(const Explanation& it, const ExplanationSource& source,
             const ExplainTextOptions& options)
      : it_(it), source_(source), options_(options), link_(source.git_version, source.version) {}

  std::string write() {
    header();
    dispatch();
    stubs();
    derivatives();
    for (const DevicePaths& device : it_.devices) call_paths(device);
    return std::move(text_);
  }

 private:
  std::string paint(std::string_view text, std::string_view sgr) const {
    return options_.style.paint(text, sgr);
  }
  void line(std::string_view content) {
    text_ += content;
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
    text_ += '\n';
  }
  void field(std::string_view name, std::string_view content) {
    line(fmt::format("{}{}", paint(padded(name, kFieldColumns), kDim), content));
  }
  void title(std::string_view text) {
    line("");
    line(paint(text, kBold));
  }

  // Returns `aten/src/ATen/native/Convolution.cpp:984`, with `~` if the source is of another
  // version.
  std::string place(std::string_view file, std::uint32_t number) const {
    if (file.empty()) return {};
    const std::string text =
        fmt::format("{}:{}{}", printable(file), source_.exact ? "" : "~", number);
    return options_.style.link(
        text, {.file = std::string(file), .line = number, .url = link_.of_native(file, number)});
  }
  std::string place(const SourceLocation& location) const {
    return place(location.file, location.line);
  }

  void row(std::size_t indent, std::string_view name, std::string_view colour,
           const std::string& location, std::string_view note = {}) {
    const std::size_t width = kNameColumns > indent ? kNameColumns - indent : 0;
    std::string text(indent, ' ');
    text += paint(padded(name, width), colour);
    if (!location.empty()) text += "  " + location;
    if (!note.empty()) text += "  " + paint(note, kDim);
    line(text);
  }

  void header() {
    line(paint(printable(it_.name), kBold));
    if (!it_.spelled.by_way_of.empty()) field("query", printable(it_.spelled.by_way_of));
    if (!it_.facts.schema.empty()) field("schema", printable(it_.facts.schema));
    if (it_.entry)
      field("yaml", place(it_.entry->location));
    else if (it_.declaration)
      field("declared", place(it_.declaration->location));
    field("source", source());
    overloads();
    const OpFacts& facts = it_.facts;
    if (!facts.variants.empty()) field("in Python", printable(in_python()));
    if (!facts.tags.empty())
      field("tags", printable(fmt::format("{}", fmt::join(facts.tags, ", "))));
    bool first = true;
    for (const std::string& sentence : it_.words) {
      field(first ? "in words" : "", printable(sentence));
      first = false;
    }
  }

  std::string source() const {
    if (source_.exact)
      return fmt::format("PyTorch {}, the commit of the installed torch",
                         printable(source_.version));
    const std::string lines = fmt::format("PyTorch {}", printable(source_.version));
    if (source_.torch.empty()) return lines + " (no torch was found to compare it with)";
    return fmt::format("{}, not torch {}: line numbers are approximate (~), kernels may differ",
                       lines, printable(source_.torch));
  }

  void overloads() {
    const auto& all = it_.spelled.overloads;
    if (all.size() < 2) return;
    std::vector<std::string> others;
    for (const std::string& one : all)
      if (one != it_.name) others.push_back(one.substr(one.find("::") + 2));
    constexpr std::size_t kMax = 8;
    std::string text = fmt::format(
        "{}", fmt::join(others.begin(),
                        others.begin() + static_cast<std::ptrdiff_t>(std::min(others.size(), kMax)),
                        ", "));
    if (others.size() > kMax) text += fmt::format(" and {} more", others.size() - kMax);
    field("overloads",
          printable(fmt::format(
              "{}{}",
              it_.spelled.chosen_by_user ? "others: " : "this is the default overload; others: ",
              text)));
  }

  std::string in_python() const {
    const OpName name = split_op_name(it_.name);
    std::vector<std::string> ways;
    for (const std::string& variant : it_.facts.variants) {
      if (variant == "method") {
        ways.push_back("Tensor." + name.base);
      } else if (it_.facts.python_module.empty()) {
        ways.push_back("torch." + name.base);
      } else if (it_.facts.python_module == "nn") {
        ways.push_back("torch._C._nn." + name.base);
      } else {
        const std::string prefix = it_.facts.python_module + "_";
        ways.push_back(fmt::format(
            "torch.{}.{}", it_.facts.python_module,
            name.base.starts_with(prefix) ? name.base.substr(prefix.size()) : name.base));
      }
    }
    return fmt::format("{}", fmt::join(ways, ", "));
  }

  static bool same_functions(const std::vector<KernelFunction>& a,
                             const std::vector<KernelFunction>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const KernelFunction& x, const KernelFunction& y) {
                        return x.symbol == y.symbol && x.role == y.role;
                      });
  }

  // Keys with the same kernel for the same reason share a row.
  void dispatch() {
    title("Dispatch table");
    struct Group {
      const ExplainedKey* first;
      std::vector<std::string_view> keys;
    };
    std::vector<Group> groups;
    const auto same = [](const DispatchEntry& a, const DispatchEntry& b) {
      if (a.reason != b.reason || a.registration.has_value() != b.registration.has_value())
        return false;
      if (!a.registration) return true;
      return a.registration->function == b.registration->function &&
             a.registration->location.file == b.registration->location.file &&
             a.registration->location.line == b.registration->location.line &&
             a.falls_through() == b.falls_through();
    };
    for (const ExplainedKey& key : it_.keys) {
      if (!options_.all && !matters(key)) continue;
      const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
        return group.first->kernel == key.kernel && same(group.first->entry, key.entry) &&
               same_functions(group.first->functions, key.functions);
      });
      if (found == groups.end())
        groups.push_back({&key, {key.entry.key}});
      else
        found->keys.push_back(key.entry.key);
    }
    for (const Group& group : groups) entry(*group.first, group.keys);
    if (!options_.all) {
      std::size_t left = 0;
      for (const ExplainedKey& key : it_.keys) left += matters(key) ? 0U : 1U;
      if (left != 0) line(paint(fmt::format("  and {} more keys: --all", left), kDim));
    }
  }

  static std::string reason(const DispatchEntry& entry) {
    const std::string_view alias = alias_key(entry.reason);
    if (!alias.empty()) return fmt::format("by {}", alias);
    switch (entry.reason) {
      case DispatchReason::fallback:
        return "fallback of the key for all ops";
      case DispatchReason::ambiguous_other:
        return "ambiguous: several backends have kernels";
      case DispatchReason::missing:
        return "no kernel: a call with this key fails";
      default:
        return "registered for the key";
    }
  }

  void entry(const ExplainedKey& key, const std::vector<std::string_view>& keys) {
    const DispatchEntry& entry = key.entry;
    std::string what = reason(entry);
    if (!entry.registration && !key.functions.empty())
      what = "the index has no registration for the key";
    if (entry.falls_through()) what = "falls through to the next key; " + what;
    line(fmt::format("  {}  {}", paint(printable(fmt::format("{}", fmt::join(keys, ", "))), kOp),
                     paint(what, kDim)));
    for (const KernelFunction& one : key.functions)
      row(4, printable(short_name(one.name)), kFunction, place(one.location),
          one.role == "kernel" ? "" : one.role);
    if (entry.registration)
      row(4, paint("registered", kDim), "", place(entry.registration->location));
  }

  void stubs() {
    if (it_.stubs.empty()) return;
    title("Stubs");
    std::size_t shown = 0;
    for (const ExplainedStub& stub : it_.stubs) {
      if (!options_.all && shown++ == kMaxStubs) {
        line(paint(fmt::format("  and {} more: --all", it_.stubs.size() - kMaxStubs), kDim));
        return;
      }
      row(2, printable(short_name(stub.name)), kOp, place(stub.location));
      // Kernels that are compiled for several CPU capabilities share a row.
      std::vector<std::pair<const Registration*, std::string>> kernels;
      for (const Registration& one : stub.kernels) {
        const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const auto& kernel) {
          return kernel.first->function == one.function &&
                 kernel.first->location.file == one.location.file;
        });
        if (found == kernels.end())
          kernels.emplace_back(&one, one.key);
        else if (found->second.find(one.key) == std::string::npos)
          found->second += fmt::format(", {}", one.key);
      }
      for (const auto& [one, keys] : kernels)
        row(4,
            one->function.empty() ? "none" : printable(short_name(qualified_name(one->function))),
            kFunction, place(one->location), printable(keys));
    }
  }

  void derivatives() {
    if (it_.derivatives.empty()) return;
    title("Derivative");
    for (const ExplainedDerivative& one : it_.derivatives) {
      const OpFacts::Derivative& facts = one.facts;
      std::string name = facts.node.empty() ? "not differentiable" : facts.node;
      if (facts.key != "Default" && !facts.key.empty()) name += fmt::format(" ({})", facts.key);
      row(2, printable(name), kFunction, place(one.location));
      for (const OpFacts::Formula& formula : facts.backward)
        this->formula(fmt::format("{}", fmt::join(formula.arguments, ", ")), formula);
      for (const OpFacts::Formula& formula : facts.forward)
        this->formula(fmt::format("forward mode, {}", fmt::join(formula.arguments, ", ")), formula);
      std::vector<std::string> ops;
      for (const CalledOp& op : one.ops)
        if (options_.all || !op.housekeeping)
          ops.push_back(fmt::format("{} (:{}{})", op.name, source_.exact ? "" : "~", op.line));
      if (ops.empty()) continue;
      const std::size_t shown = options_.all ? ops.size() : std::min(ops.size(), kMaxOps);
      std::string text = fmt::format(
          "{}", fmt::join(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
      if (shown < ops.size()) text += fmt::format(" and {} more", ops.size() - shown);
      line(fmt::format("    {} {}", paint("calls", kDim), printable(text)));
    }
  }

  void formula(const std::string& of, const OpFacts::Formula& formula) {
    line(fmt::format("    {}  {}", paint(printable(of) + ":", kDim), printable(formula.text)));
    line(fmt::format("      {}", place(kDerivatives, formula.line)));
  }

  // The call paths as a tree, in which common steps are shown once.
  struct TreeNode {
    const PathStep* step = nullptr;
    std::uint32_t call_line = 0;  // In the file of the node above.
    std::string_view library;
    std::string_view stopped;  // Why nothing follows; empty for an end.
    std::vector<TreeNode> children;
  };

  // Returns true for functions that only pass a call on: torchgen's wrappers, and the one-line
  // functions of ATen/Functions.h and of Tensor that call an op.
  static bool hands_on(const StaticPath& path, std::size_t at) {
    if (path.steps[at].kind != StepKind::function) return false;
    if (at + 1 < path.steps.size() && path.steps[at + 1].kind == StepKind::op) {
      const std::string_view file = path.steps[at].location.file;
      return file.ends_with("/ATen/Functions.h") || file.ends_with("/core/TensorBody.h") ||
             file.ends_with("/ATen/TensorOperators.h") ||
             file.find("/ATen/ops/") != std::string_view::npos;
    }
    return at != 0 && path.steps[at - 1].kind == StepKind::op && at + 1 < path.steps.size() &&
           qualified_name(path.steps[at].symbol).find("::wrapper_") != std::string::npos;
  }

  void insert(TreeNode& root, const StaticPath& path) const {
    TreeNode* at = &root;
    // A step that is left out passes its call line on to the op after it.
    std::uint32_t handed_on = 0;
    for (std::size_t i = 0; i < path.steps.size(); ++i) {
      const PathStep& step = path.steps[i];
      if (!options_.all && hands_on(path, i)) {
        handed_on = step.call_line;
        continue;
      }
      const bool behind_wrapper =
          !options_.all && i != 0 && hands_on(path, i - 1) && step.kind != StepKind::op;
      const std::uint32_t line = behind_wrapper ? 0 : handed_on != 0 ? handed_on : step.call_line;
      handed_on = 0;
      const auto found =
          std::find_if(at->children.begin(), at->children.end(), [&](const TreeNode& child) {
            return child.step->kind == step.kind && child.step->symbol == step.symbol &&
                   child.step->op == step.op;
          });
      if (found == at->children.end()) {
        at->children.push_back({&step, line, {}, {}, {}});
        at = &at->children.back();
      } else {
        at = &*found;
      }
    }
    at->library = path.library;
    at->stopped = path.stopped;
  }

  void call_paths(const DevicePaths& device) {
    title(fmt::format("Call path on {}", printable(device.device)));
    if (device.paths.empty()) {
      line(
          "  no path was found in the source: there is no kernel, or the index has nothing below "
          "it");
      return;
    }
    TreeNode root;
    const std::vector<const StaticPath*> chosen = choose(device.paths);
    for (const StaticPath* const path : chosen) insert(root, *path);
    for (const TreeNode& child : root.children) node(child, "", "");
    if (chosen.size() < device.paths.size())
      line(paint(fmt::format("  and {} more endpoints: --all", device.paths.size() - chosen.size()),
                 kDim));
  }

  // Returns the ops of a path that are related to the op's name. They define its branch.
  static std::vector<std::string_view> branch(const StaticPath& path) {
    std::vector<std::string_view> ops;
    for (const PathStep& step : path.steps)
      if (step.kind == StepKind::op && !step.detour) ops.push_back(step.op);
    return ops;
  }

  // Returns all paths, or the likeliest ones of each branch and for each library.
  std::vector<const StaticPath*> choose(const std::vector<StaticPath>& paths) const {
    std::vector<const StaticPath*> chosen;
    std::set<std::pair<std::vector<std::string_view>, std::string_view>> seen;
    std::set<std::vector<std::string_view>> branches;
    for (const StaticPath& path : paths) {
      if (options_.all) {
        chosen.push_back(&path);
        continue;
      }
      if (chosen.size() == kMaxWaysDown) break;
      const std::vector<std::string_view> own = branch(path);
      // PyTorch's own kernels, and copies and fills of the CUDA runtime, are less informative than
      // the paths that the branch already has.
      const bool lesser = path.bookkeeping || path.library == "CUDA" || path.library.empty();
      if (lesser && branches.contains(own)) continue;
      if (!chosen.empty() &&
          (path.bookkeeping || !path.has_kernel || path.detours > chosen.front()->detours ||
           path.variants > chosen.front()->variants))
        continue;
      if (!seen.emplace(own, path.library).second) continue;
      branches.insert(own);
      chosen.push_back(deepest(&path, paths));
    }
    return chosen;
  }

  // Returns the longer path if `path` ends at a stub's kernel, and another continues to a kernel
  // launch.
  static const StaticPath* deepest(const StaticPath* path, const std::vector<StaticPath>& paths) {
    if (path->steps.back().kind != StepKind::function || !path->stopped.empty()) return path;
    const auto goes_on = [&](const StaticPath& other) {
      return other.steps.size() > path->steps.size() && other.detours == path->detours &&
             other.steps.back().kind == StepKind::device_kernel &&
             std::equal(path->steps.begin(), path->steps.end(), other.steps.begin(),
                        [](const PathStep& a, const PathStep& b) {
                          return a.kind == b.kind && a.symbol == b.symbol && a.op == b.op;
                        });
    };
    const auto found = std::find_if(paths.begin(), paths.end(), goes_on);
    return found == paths.end() ? path : &*found;
  }

  static constexpr std::size_t kTreeColumns = 58;

  void node(const TreeNode& at, const std::string& branch, const std::string& below) {
    const PathStep& step = *at.step;
    const bool op = step.kind == StepKind::op;
    const std::string name = op ? step.op : short_name(qualified_name(step.symbol));
    std::string note;
    if (!at.library.empty()) note = at.library;
    if (step.kind == StepKind::device_kernel) note = "device kernel";
    if (step.kind == StepKind::stub) note = "stub";
    if (!step.note.empty()) note = step.note;
    const std::string_view colour = op || step.kind == StepKind::stub ? kOp
                                    : step.kind == StepKind::function ? kFunction
                                                                      : kLibrary;
    std::string row = "  " + paint(branch, kDim) + paint(printable(name), colour);
    std::size_t width = 2 + columns(branch) + columns(printable(name));
    if (!note.empty()) {
      row += "  " + paint(printable(note), kDim);
      width += 2 + columns(printable(note));
    }
    if (width < kTreeColumns) row.append(kTreeColumns - width, ' ');
    if (!step.location.file.empty()) row += "  " + place(step.location);
    if (at.call_line != 0)
      row += paint(fmt::format("  called at :{}{}", source_.exact ? "" : "~", at.call_line), kDim);
    line(row);
    if (at.children.empty() && !at.stopped.empty())
      line(
          fmt::format("  {}{}", paint(below, kDim),
                      paint(printable(fmt::format("the search ends here: {}", at.stopped)), kDim)));
    const bool fork = at.children.size() > 1;
    for (std::size_t i = 0; i < at.children.size(); ++i) {
      const bool last = i + 1 == at.children.size();
      node(at.children[i], fork ? below + (last ? "└─ " : "├─ ") : below,
           fork ? below + (last ? "   " : "│  ") : below);
    }
  }

  const Explanation& it_;
  const ExplanationSource& source_;
  const ExplainTextOptions& options_;
  SourceLink link_;
  std::string text_;
};

}  // namespace

std::string to_text(const Explanation& explanation, const ExplanationSource& source,
                    const ExplainTextOptions& options) {
  return TextWriter(explanation, source, options).write();
}

}  // namespace optrace
