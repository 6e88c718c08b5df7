#include "lookup/calls/python_calls.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/core.h>

#include "lookup/calls/followed_calls.h"
#include "platform/text/joined.h"
#include "pytorch/functions/generated_names.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Methods with the work of a class, of modules, autograd functions, optimizers and others.
constexpr auto kMethods =
    std::to_array<std::string_view>({"forward", "backward", "step", "__call__"});

// Modules that stand for others: torch._VF forwards every name to torch's functions.
struct ModuleRow {
  std::string_view module;
  std::string_view stands_for;
};
constexpr auto kModules = std::to_array<ModuleRow>(
    {{"torch._VF.", "torch."}, {"torch._C._VariableFunctions.", "torch."}});

// Modules that only serve others: hooks, checks of arguments, compilers. Their calls of ops are not
// those of the function that calls them.
constexpr auto kModulesNotFollowed = std::to_array<std::string_view>(
    {"torch.overrides.", "torch._jit_internal.", "torch.jit.", "torch.fx.", "torch._dynamo.",
     "torch._tensor_str.", "torch.nn.modules.module.Module.", "torch.utils._python_dispatch."});

// Methods of tensors that Python's containers and strings have, too.
constexpr auto kMethodsOfContainers = std::to_array<std::string_view>(
    {"add", "clear", "copy", "count", "index", "sort", "split", "union", "values"});

std::string module_of_file(std::string_view file) {
  std::string module(file.substr(0, file.rfind('.')));
  std::ranges::replace(module, '/', '.');
  constexpr std::string_view kPackage = ".__init__";
  if (module.ends_with(kPackage)) module.erase(module.size() - kPackage.size());
  return module;
}

std::string package_of_file(std::string_view file) {
  return module_of_file(std::string(file.substr(0, file.rfind('/'))) + ".py");
}

std::string owner_of(std::string_view function) {
  const std::size_t dot = function.rfind('.');
  return std::string(function.substr(0, dot == std::string_view::npos ? 0 : dot));
}

bool is_composite_kernel(const Located& kernel) {
  return kernel.key.find("Composite") != std::string::npos;
}

bool is_for(const Located& kernel, std::string_view key) {
  return (", " + kernel.key + ",").find(fmt::format(", {},", key)) != std::string::npos;
}

}  // namespace

bool PythonCalls::has_calls(const Located& answer) {
  return answer.kind == LocatedKind::python_class || answer.kind == LocatedKind::python_function;
}

bool PythonCalls::add(Located& answer, bool all) {
  all_ = all;
  missing_ = false;
  listed_.clear();
  const auto name = python_.find_name(answer.name);
  if (!name || !has_calls(answer)) return true;
  if (name->kind == PythonKind::class_)
    add_methods(*name, answer);
  else
    add_calls(*name, owner_of(name->name), answer);
  return !missing_;
}

void PythonCalls::add_methods(const PythonName& owner, Located& answer) {
  for (const std::string_view method : kMethods) {
    const auto found = python_.find_name(fmt::format("{}.{}", owner.name, method));
    if (!found || found->kind != PythonKind::function) continue;
    Located part;
    part.kind = LocatedKind::python_function;
    part.role = "method";
    part.name = found->name;
    entries_.place_python(part, found->location);
    add_calls(*found, std::string(owner.name), part);
    if (!part.parts.empty()) answer.parts.push_back(std::move(part));
  }
}

// `owner` is the class of `self`, or what else contains the function.
void PythonCalls::add_calls(const PythonName& function, const std::string& owner, Located& answer) {
  listed_.emplace(function.name);
  const File* const file = file_of(function.location.file);
  if (file == nullptr) {
    missing_ = true;
    return;
  }
  const std::size_t begin = line_of_definition(*file, function);
  const std::size_t end = file->source.end_of_block(begin);
  std::set<std::string> seen;  // Only the first of several calls is listed.
  for (const PythonCallInText& call : file->source.calls(begin, end)) {
    bool if_tensor = false;
    auto name = resolve(*file, owner, call.name, if_tensor);
    bool of_self = call.name.parts.front() == "self" || call.name.parts.front() == "super";
    if (!name && of_self && !call.name.of_expression) {
      name = call_of_attribute(owner, call.name.parts.back());
      of_self = false;
    }
    if (!name || (call.through_variable && name->kind != PythonKind::function) ||
        !seen.emplace(name->name).second)
      continue;
    std::optional<Located> part = name->kind == PythonKind::builtin
                                      ? builtin(*name)
                                      : callee(*name, of_self ? owner : owner_of(name->name));
    if (!part) continue;
    if (if_tensor) part->note = "if it is a tensor's method";
    if (call.through_variable) part->note = "through a variable";
    part->role = "calls";
    part->call_line = static_cast<std::uint32_t>(call.line + 1);
    part->call_in_local_file = true;
    answer.parts.push_back(std::move(*part));
  }
}

// Returns the object that a name in a file stands for. `if_tensor` is set if that depends on the
// object whose method it is.
std::optional<PythonName> PythonCalls::resolve(const File& file, const std::string& owner,
                                               const PythonNameInText& name,
                                               bool& if_tensor) const {
  const std::vector<std::string>& parts = name.parts;
  if (!name.of_expression && parts.size() == 2 && (parts[0] == "self" || parts[0] == "cls"))
    return python_.find_name(owner + "." + parts[1]);
  if (!name.of_expression && parts.size() == 2 && parts[0] == "super") {
    const auto own = python_.find_name(owner);
    if (!own || own->kind != PythonKind::class_) return std::nullopt;
    const std::string base(own->target.substr(0, own->target.find(',')));
    return base.empty() ? std::nullopt : python_.find_name(base + "." + parts[1]);
  }
  if (!name.of_expression)
    if (auto own = python_.find_name(fmt::format("{}.{}", file.module, joined(parts, "."))))
      return own;
  for (std::string full : file.source.full_names(name)) {
    for (const auto& [module, stands_for] : kModules)
      if (full.starts_with(module)) full = std::string(stands_for) + full.substr(module.size());
    const auto found = python_.find_name(full);
    if (!found) continue;
    if_tensor = full.starts_with("torch.Tensor.");
    if (if_tensor && (found->kind != PythonKind::builtin ||
                      std::ranges::count(kMethodsOfContainers, name.parts.back()) != 0))
      continue;
    return found;
  }
  return std::nullopt;
}

std::optional<Located> PythonCalls::builtin(const PythonName& name) {
  Located part;
  part.kind = LocatedKind::python_builtin;
  part.name = name.name;
  const std::string packet = bound_packet(qualified_name(name.target));
  const bool housekeeping = is_housekeeping_op(packet);
  std::vector<OpEntry> ops;
  if (!packet.empty() && (all_ || !housekeeping)) ops = ops_.overloads(packet);
  std::erase_if(ops, [&](const OpEntry& op) {
    // Out variants have the same kernels.
    return ops_.is_autogenerated(op) || (!all_ && op.name.ends_with("out"));
  });
  if (ops.empty() && !all_) return std::nullopt;
  const auto binding = entries_.pytorch().find_definition(name.target);
  entries_.place(part, entries_.pytorch(), binding ? binding->location : name.location);
  if (!listed_.emplace(name.name).second) {
    part.note = "listed elsewhere";
    return part;
  }
  if (!all_ && ops.size() > 1) {
    part.left_out = ops.size() - 1;
    ops.resize(1);
  }
  for (const OpEntry& op : ops) {
    Located one = ops_.located(op);
    one.role = "op";
    add_kernels(one);
    if (!all_) keep_kernels_of_devices(one);
    part.parts.push_back(std::move(one));
  }
  return part;
}

// Returns what `self.attribute(...)` calls in a class: the `forward` of the class that its
// `__init__` makes the attribute of.
std::optional<PythonName> PythonCalls::call_of_attribute(const std::string& owner,
                                                         const std::string& attribute) {
  const auto& attributes = attributes_of(owner);
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) return std::nullopt;
  return python_.find_name(found->second + ".forward");
}

const std::map<std::string, std::string>& PythonCalls::attributes_of(const std::string& owner) {
  const auto [at, added] = attributes_.try_emplace(owner);
  if (!added) return at->second;
  const auto init = python_.find_name(owner + ".__init__");
  if (!init) return at->second;
  const File* const file = file_of(init->location.file);
  if (file == nullptr) return at->second;
  const std::size_t begin = line_of_definition(*file, *init);
  for (const PythonCallInText& call : file->source.calls(begin, file->source.end_of_block(begin))) {
    bool if_tensor = false;
    if (call.attribute.empty()) continue;
    const auto made = resolve(*file, owner, call.name, if_tensor);
    if (made && made->kind == PythonKind::class_)
      at->second.emplace(call.attribute, std::string(made->name));
  }
  return at->second;
}

std::optional<Located> PythonCalls::callee(const PythonName& name, const std::string& owner) {
  // A call of a class makes an object.
  if (name.kind != PythonKind::function) return std::nullopt;
  if (std::ranges::any_of(kModulesNotFollowed,
                          [&](std::string_view module) { return name.name.starts_with(module); }))
    return std::nullopt;
  Located part;
  part.kind = LocatedKind::python_function;
  part.name = name.name;
  entries_.place_python(part, name.location);
  if (listed_.contains(part.name) || listed_.size() >= kMaxFunctions) return std::nullopt;
  add_calls(name, owner, part);
  if (part.parts.empty()) return std::nullopt;
  return part;
}

// Removes the kernels for layouts and devices other than dense tensors on the CPU and on CUDA.
void PythonCalls::keep_kernels_of_devices(Located& op) const {
  const std::size_t before = op.parts.size();
  std::erase_if(op.parts, [](const Located& kernel) {
    return !is_for(kernel, "CPU") && !is_for(kernel, "CUDA") && !is_composite_kernel(kernel);
  });
  op.left_out += before - op.parts.size();
}

// Adds to a composite op the kernels of the ops that it leads to on the CPU and on CUDA devices.
void PythonCalls::add_kernels(Located& op) {
  if (std::ranges::none_of(op.parts, is_composite_kernel)) return;
  const std::vector<Located> own = op.parts;
  for (const std::string_view key : {"CPU", "CUDA"}) {
    if (std::ranges::any_of(own, [&](const Located& kernel) { return is_for(kernel, key); }))
      continue;
    std::set<std::string> seen;
    for (const StaticPath& path : paths_.find(op.name, key)) {
      std::optional<Located> kernel = last_kernel(path, op.name);
      if (!kernel || !seen.insert(kernel->symbol).second) continue;
      if (!all_ && seen.size() > 1) {
        ++op.left_out;
        continue;
      }
      kernel->key = key;
      op.parts.push_back(std::move(*kernel));
    }
  }
}

// Returns the kernel of the last op on a path; nothing if the path calls no other op than `op`.
std::optional<Located> PythonCalls::last_kernel(const StaticPath& path, std::string_view op) const {
  const auto last = std::find_if(path.steps.rbegin(), path.steps.rend(),
                                 [](const PathStep& step) { return step.kind == StepKind::op; });
  if (last == path.steps.rend() || last->op == op || path.bookkeeping) return std::nullopt;
  auto kernel = last.base();
  while (kernel != path.steps.end() && is_wrapper_symbol(kernel->symbol)) ++kernel;
  if (kernel == path.steps.end() || kernel->kind != StepKind::function) return std::nullopt;
  Located part;
  part.role = "kernel";
  part.name = qualified_name(kernel->symbol);
  part.symbol = kernel->symbol;
  entries_.place(part, entries_.pytorch(), kernel->location);
  part.note =
      fmt::format("of {}{}{}", last->op, path.library.empty() ? "" : ", calls ", path.library);
  return part;
}

const PythonCalls::File* PythonCalls::file_of(std::string_view file) {
  const auto [at, added] = files_.try_emplace(std::string(file));
  if (added)
    if (std::optional<std::string> text = read_(at->first))
      at->second =
          File{PythonSource(std::move(*text), package_of_file(file)), module_of_file(file)};
  const std::optional<File>& file_read = at->second;
  return file_read ? &*file_read : nullptr;
}

// Returns the line, from 0, at which a file defines a function: the index's line, or the nearest
// one with its `def` if the file is of another version.
std::size_t PythonCalls::line_of_definition(const File& file, const PythonName& name) const {
  const std::string text = fmt::format("def {}(", name.name.substr(name.name.rfind('.') + 1));
  const std::size_t known = name.location.line == 0 ? 0 : name.location.line - 1;
  constexpr std::size_t kFarthest = 2000;
  for (std::size_t far = 0; far < kFarthest; ++far) {
    if (file.source.line(known + far).find(text) != std::string_view::npos) return known + far;
    if (far <= known && file.source.line(known - far).find(text) != std::string_view::npos)
      return known - far;
  }
  return known;
}

}  // namespace optrace
