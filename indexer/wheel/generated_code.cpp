#include "indexer/wheel/generated_code.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "indexer/sources/source_tree.h"
#include "indexer/wheel/shallow_parser.h"
#include "platform/files/whole_file.h"
#include "pytorch/source/source_files.h"

namespace optrace {
namespace {

// The classes whose members generated code calls on objects of a type that it doesn't write
// (`auto`, a parameter, a member).
constexpr auto kReceivers = std::to_array<std::string_view>(
    {"c10::TypedOperatorHandle", "at::Tensor", "at::TensorBase", "torch::PythonArgs",
     "torch::PythonArgParser", "torch::autograd::Node", "torch::autograd::SavedVariable",
     "torch::autograd::generated::details::IndexRangeGenerator"});

// Overloads of one name in a call; the index has all of them.
constexpr std::size_t kMostOverloads = 16;

class FileIndexer {
 public:
  FileIndexer(std::string file, const ParsedCode& outline, const FunctionNames& names,
              IndexContents& contents)
      : file_(std::move(file)), parsed_(outline), names_(names), contents_(contents) {}

  void run() {
    for (const ParsedFunction& function : parsed_.functions)
      lines_[overload_of(function)].push_back(function.line);
    for (const ParsedFunction& function : parsed_.functions) add(function);
    for (const ParsedRegistration& registration : parsed_.registrations) add(registration);
  }

 private:
  void add(const ParsedFunction& function) {
    std::string symbol = names_.symbol_of(function);
    if (symbol.empty()) return;
    IndexContents::Function made;
    made.symbol = std::move(symbol);
    made.file = file_;
    made.line = function.line;
    // Overloads with as many parameters: the wheel may contain one of them only.
    if (const auto& lines = lines_.at(overload_of(function)); lines.size() > 1)
      made.approximate = LineInterval{lines.front(), lines.back()};
    for (const ParsedCall& call : function.calls)
      for (const std::string& callee : callees(function, call))
        made.calls.push_back({.callee = callee, .line = call.line});
    contents_.functions.push_back(std::move(made));
  }

  static std::string overload_of(const ParsedFunction& function) {
    std::string key = std::to_string(function.parameters) + ' ' + function.name;
    for (const std::string& part : function.scope) key.append(1, '\n') += part;
    return key;
  }

  const std::vector<std::string>& callees(const ParsedFunction& function, const ParsedCall& call) {
    std::string asked;
    std::vector<std::string> scope = function.scope;
    // `conv2d::call` is defined in the scope of its class.
    for (std::size_t at = 0, end = 0; (end = function.name.find("::", at)) != std::string::npos;
         at = end + 2)
      scope.push_back(function.name.substr(at, end - at));
    for (const std::string& part : scope) asked.append(part) += '\n';
    const auto variable = std::ranges::find(function.variables, call.receiver,
                                            [](const auto& pair) { return pair.first; });
    const bool known =
        call.is_member && !call.receiver.empty() && variable != function.variables.end();
    asked.append(known ? variable->second : "").append(call.is_member ? "." : " ") += call.name;
    const auto [at, added] = callees_.try_emplace(std::move(asked));
    if (!added) return at->second;
    std::vector<std::string>& found = at->second;
    if (known)
      found = names_.member(function.scope, variable->second, call.name);
    else if (call.is_member)
      found = members(call.name);
    else
      found = names_.visible(scope, parsed_.used_namespaces, call.name);
    if (found.size() > kMostOverloads) found.resize(kMostOverloads);
    return found;
  }

  std::vector<std::string> members(std::string_view name) const {
    std::vector<std::string> all;
    for (const std::string_view receiver : kReceivers) {
      std::vector<std::string> found = names_.member({}, receiver, name);
      std::ranges::move(found, std::back_inserter(all));
    }
    return all;
  }

  void add(const ParsedRegistration& registration) {
    IndexContents::Registration made;
    made.kind =
        registration.is_definition ? RegistrationKind::definition : RegistrationKind::kernel;
    const std::string_view op =
        std::string_view(registration.op).substr(0, registration.op.find('('));
    made.name = op.find("::") == std::string_view::npos
                    ? registration.library + "::" + std::string(op)
                    : std::string(op);
    made.key = registration.key;
    if (!registration.function.empty()) {
      const auto found =
          names_.visible(registration.scope, parsed_.used_namespaces, registration.function);
      // A function that the wheel does not contain by itself was inlined into a template's
      // instance; its definition has the names alone.
      ParsedFunction function;
      function.scope = registration.scope;
      function.name = registration.function;
      made.function = found.empty() ? defined_name(function) : found.front();
    }
    made.file = file_;
    made.line = registration.line;
    contents_.registrations.push_back(std::move(made));
  }

  // Returns the symbol of the file's own definition with this name, visible from its scope.
  std::string defined_name(const ParsedFunction& searched) const {
    const std::string_view last =
        std::string_view(searched.name).substr(searched.name.rfind(':') + 1);
    for (const ParsedFunction& function : parsed_.functions)
      if (function.name == last) return names_.symbol_of(function);
    return {};
  }

  std::string file_;
  const ParsedCode& parsed_;
  const FunctionNames& names_;
  IndexContents& contents_;
  std::unordered_map<std::string, std::vector<std::string>> callees_;  // By scope and name.
  /// By scope, name and number of parameters, the lines of the definitions, ascending.
  std::unordered_map<std::string, std::vector<std::uint32_t>> lines_;
};

// The generators write kernels for devices that no Linux x86-64 wheel has, too.
bool is_for_others(std::string_view file) {
  constexpr auto kOthers = std::to_array<std::string_view>({"MPS", "XPU", "HPU", "Everything"});
  const std::string_view name = file.substr(file.rfind('/') + 1);
  return std::ranges::any_of(
      kOthers, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

}  // namespace

IndexContents index_generated_code(const std::filesystem::path& folder, FunctionNames& names) {
  std::vector<std::pair<std::string, ParsedCode>> outlines;
  for (const SourceUnit& unit : list_units(folder)) {
    if (is_for_others(unit.name)) continue;
    const std::string text = read_file(unit.path).value_or("");
    outlines.emplace_back(unit.name, parse_shallowly(text));
    names.add_classes(outlines.back().second.classes);
  }
  // The bases of structured kernels are in headers.
  std::error_code error;
  const auto ops = folder / kBuiltATen / "ops";
  for (std::filesystem::directory_iterator at(ops, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with("_native.h") || name.ends_with("_meta.h"))
      names.add_classes(parse_shallowly(read_file(at->path()).value_or("")).classes);
  }
  IndexContents contents;
  for (const auto& [file, made] : outlines) FileIndexer(file, made, names, contents).run();
  return contents;
}

}  // namespace optrace
