#include "lookup/explain/explain_messages.h"

#include <fmt/core.h>

#include "present/line_text.h"
#include "pytorch/names/op_name.h"

namespace optrace {
namespace {

std::string python_name(const std::string& variant, const std::string& module,
                        const std::string& base) {
  if (variant == "method") return "Tensor." + base;
  if (module.empty()) return "torch." + base;
  if (module == "nn") return "torch._C._nn." + base;
  const std::string prefix = module + "_";
  return fmt::format("torch.{}.{}", module,
                     base.starts_with(prefix) ? base.substr(prefix.size()) : base);
}

}  // namespace

std::string source_sentence(const IndexedSource& source) {
  const std::string lines = fmt::format("PyTorch {}", source.version);
  if (source.match.of_torch && source.match.from_wheel)
    return lines + ", from the wheel of the installed torch; ~ marks approximate lines";
  if (source.match.of_torch)
    return fmt::format("{}, the commit of the installed torch{}", lines,
                       source.match.exact ? "" : "; ~ marks approximate lines");
  if (source.torch_version.empty()) return lines + " (no torch was found to compare it with)";
  return fmt::format("{}, not torch {}: line numbers are approximate (~), kernels may differ",
                     lines, source.torch_version);
}

std::string place_text(const SourceLocation& location, const IndexedSource& source) {
  return place_text(location.file, location.line, source.match.is_exact(location.approximate));
}

std::string line_suffix(std::uint32_t line, const std::optional<LineInterval>& approximate,
                        const IndexedSource& source) {
  return place_text("", line, source.match.is_exact(approximate));
}

std::vector<std::string> python_names(const Explanation& explanation) {
  const OpFacts& facts = explanation.facts;
  std::vector<std::string> names;
  names.reserve(facts.variants.size());
  for (const std::string& variant : facts.variants)
    names.push_back(
        python_name(variant, facts.python_module, split_op_name(explanation.name).base));
  return names;
}

std::vector<std::string> other_overloads(const Explanation& explanation) {
  std::vector<std::string> others;
  for (const std::string& one : explanation.spelled.overloads)
    if (one != explanation.name) others.push_back(one.substr(one.find("::") + 2));
  return others;
}

std::string node_name(const OpFacts::Derivative& derivative) {
  std::string name = derivative.node.empty() ? "not differentiable" : derivative.node;
  if (derivative.key == "Default" || derivative.key.empty()) return name;
  return fmt::format("{} ({})", name, derivative.key);
}

}  // namespace optrace
