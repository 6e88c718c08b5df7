#include "indexer/catalogue/python_catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "indexer/sources/python_installation.h"
#include "indexer/store/index_store.h"
#include "platform/files/installation.h"
#include "platform/files/whole_file.h"
#include "platform/text/ascii_text.h"

namespace optrace {
namespace {

// The class or module whose members a table's entries are. A table that is not listed binds no
// public names (for example the properties of each backward node).
struct TableOwner {
  std::string_view table;
  std::string_view file;  // The file of the table, if several tables have the same name.
  std::string_view owner;
};

constexpr std::array kTableOwners = {
    TableOwner{"torch_functions_shard", "", "torch"},
    TableOwner{"torch_functions_manual", "", "torch"},
    TableOwner{"torch_functions_shard", "", "torch._C._VariableFunctions"},
    TableOwner{"torch_functions_manual", "", "torch._C._VariableFunctions"},
    TableOwner{"variable_methods", "", "torch.Tensor"},
    TableOwner{"THPVariable_properties", "", "torch.Tensor"},
    TableOwner{"extra_methods", "torch/csrc/autograd/python_variable.cpp", "torch.Tensor"},
    TableOwner{"variable_methods", "", "torch._C.TensorBase"},
    TableOwner{"THPVariable_properties", "", "torch._C.TensorBase"},
    TableOwner{"nn_functions", "", "torch._C._nn"},
    TableOwner{"fft_functions", "", "torch._C._fft"},
    TableOwner{"linalg_functions", "", "torch._C._linalg"},
    TableOwner{"special_functions", "", "torch._C._special"},
    TableOwner{"sparse_functions", "", "torch._C._sparse"},
    TableOwner{"nested_functions", "", "torch._C._nested"},
    TableOwner{"nested_functions_manual", "", "torch._C._nested"},
    TableOwner{"TorchMethods", "", "torch._C"},
    TableOwner{"DataLoaderMethods", "", "torch._C"},
    TableOwner{"_THCPModule_methods", "", "torch._C"},
    TableOwner{"methods", "torch/csrc/autograd/init.cpp", "torch._C"},
    TableOwner{"methods", "torch/csrc/multiprocessing/init.cpp", "torch._C"},
    TableOwner{"THPSize_methods", "", "torch.Size"},
    TableOwner{"THPGenerator_methods", "", "torch.Generator"},
    TableOwner{"THPGenerator_properties", "", "torch.Generator"},
    TableOwner{"THPDevice_methods", "", "torch.device"},
    TableOwner{"THPDevice_properties", "", "torch.device"},
    TableOwner{"THPDtype_methods", "", "torch.dtype"},
    TableOwner{"THPDtype_properties", "", "torch.dtype"},
    TableOwner{"THPEvent_methods", "", "torch.Event"},
    TableOwner{"THPEvent_properties", "", "torch.Event"},
    TableOwner{"THPStream_methods", "", "torch.Stream"},
    TableOwner{"THPStream_properties", "", "torch.Stream"},
};

// A function in a slot of the tensor type object, which no method table lists.
struct Slot {
  std::string_view name;
  std::string_view file;
  std::string_view function;
};

constexpr std::array kSlots = {
    Slot{"torch.Tensor.__getitem__", "torch/csrc/autograd/python_variable_indexing.cpp",
         "THPVariable_getitem"},
    Slot{"torch.Tensor.__setitem__", "torch/csrc/autograd/python_variable_indexing.cpp",
         "THPVariable_setitem"},
    Slot{"torch.Tensor.__delitem__", "torch/csrc/autograd/python_variable_indexing.cpp",
         "THPVariable_setitem"},
    Slot{"torch.Tensor.__new__", "torch/csrc/autograd/python_variable.cpp", "THPVariable_pynew"},
};

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
  return at;
}

std::string_view identifier_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_word_character(text[end])) ++end;
  return text.substr(at, end - at);
}

// Returns the position after the string or character literal at `at`, or `at` if there is none.
std::size_t skip_literal(std::string_view text, std::size_t at) {
  if (text[at] != '"' && text[at] != '\'') return at;
  std::size_t end = at + 1;
  while (end < text.size() && text[end] != text[at]) end += text[end] == '\\' ? 2U : 1U;
  return std::min(end + 1, text.size());
}

std::string without_comments(std::string_view text) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const auto rest = text.substr(at);
    if (rest.starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
    } else if (rest.starts_with("/*")) {
      at = std::min(text.find("*/", at + 2), text.size() - 2) + 2;
    } else {
      const std::size_t end = std::max(skip_literal(text, at), at + 1);
      kept += text.substr(at, end - at);
      at = end;
    }
  }
  return kept;
}

// Returns the last name, qualified, of an expression: `f` of `(PyCFunction)(void(*)(void))f`, of
// `cast(f)`, and of `wrap<f>`.
std::string_view last_name(std::string_view expression) {
  std::size_t end = expression.size();
  while (end > 0 && !is_word_character(expression[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && (is_word_character(expression[begin - 1]) || expression[begin - 1] == ':'))
    --begin;
  return expression.substr(begin, end - begin);
}

// Returns the items between the commas of the braced list that starts at `at`, and the position
// after its end.
std::pair<std::vector<std::string_view>, std::size_t> list_items(std::string_view text,
                                                                 std::size_t at) {
  std::vector<std::string_view> items;
  int depth = 1;
  std::size_t begin = ++at;
  while (at < text.size() && depth > 0) {
    if (const std::size_t end = skip_literal(text, at); end != at) {
      at = end;
      continue;
    }
    const char letter = text[at];
    depth += letter == '{' || letter == '(' ? 1 : letter == '}' || letter == ')' ? -1 : 0;
    if (depth == 0 || (depth == 1 && letter == ',')) {
      items.push_back(text.substr(begin, at - begin));
      begin = at + 1;
    }
    ++at;
  }
  return {std::move(items), at};
}

std::optional<MethodEntry> entry_of(std::string_view table, std::string_view item) {
  const std::size_t brace = item.find('{');
  if (brace == std::string_view::npos) return std::nullopt;
  const auto fields = list_items(item, brace).first;
  if (fields.size() < 2) return std::nullopt;
  const std::size_t quote = fields[0].find('"');
  const std::size_t end = fields[0].rfind('"');
  const std::string_view function = last_name(fields[1]);
  if (quote == end || function.empty() || function == "nullptr" || function == "NULL")
    return std::nullopt;
  return MethodEntry{std::string(table), std::string(fields[0].substr(quote + 1, end - quote - 1)),
                     std::string(function)};
}

// Returns the names of a plain function's symbol: `torch`, `autograd`, `THPVariable_add`. Empty for
// operators, lambdas and templates.
std::vector<std::string_view> names_of(std::string_view symbol) {
  std::vector<std::string_view> names;
  if (!symbol.starts_with("_Z") || symbol.find('#') != std::string_view::npos) return names;
  std::size_t at = 2;
  const bool is_nested = symbol.substr(at).starts_with('N');
  at += is_nested ? 1U : 0U;
  at += is_nested && symbol.substr(at).starts_with('K') ? 1U : 0U;
  while (at < symbol.size() && std::isdigit(static_cast<unsigned char>(symbol[at])) != 0) {
    std::size_t length = 0;
    while (at < symbol.size() && std::isdigit(static_cast<unsigned char>(symbol[at])) != 0 &&
           length < symbol.size()) {
      length = length * 10 + static_cast<std::size_t>(symbol[at++] - '0');
    }
    if (length > symbol.size() - at) return {};
    names.push_back(symbol.substr(at, length));
    at += length;
    if (!is_nested) break;
  }
  return names;
}

using FunctionsByName =
    std::map<std::tuple<std::string, std::string>, const IndexContents::Function*>;

// Returns the functions of some files, keyed by (file, name) and by (file, `Class::`).
FunctionsByName functions_by_name(const IndexContents& contents,
                                  const std::set<std::string>& files) {
  FunctionsByName functions;
  const auto add = [&](const std::string& file, std::string name,
                       const IndexContents::Function& function) {
    auto& there = functions[{file, std::move(name)}];
    // For overloads and several members of a class, the first by line, independent of the order of
    // units.
    if (there == nullptr ||
        std::tie(function.line, function.symbol) < std::tie(there->line, there->symbol)) {
      there = &function;
    }
  };
  for (const auto& function : contents.functions) {
    if (!files.contains(function.file)) continue;
    if (const auto names = names_of(function.symbol); !names.empty()) {
      add(function.file, std::string(names.back()), function);
      if (names.size() > 1) {
        const std::string owner(names[names.size() - 2]);
        add(function.file, owner + "::" + std::string(names.back()), function);
        add(function.file, owner + "::", function);
      }
    }
  }
  return functions;
}

const IndexContents::Function* function_of(const std::string& name, const std::string& file,
                                           const FunctionsByName& functions) {
  const std::size_t colons = name.rfind("::");
  auto found = functions.find({file, name});
  if (found == functions.end() && colons != std::string::npos) {
    // `PropertyT::getter` is inherited and shared, so PropertyT's own function identifies it.
    found = functions.find({file, name.substr(0, colons + 2)});
  }
  return found == functions.end() ? nullptr : found->second;
}

}  // namespace

void write_python_names(const std::filesystem::path& python, const std::filesystem::path& output) {
  run_python(python, {(data_folder() / "catalogue/python_names.py").string(), output.string()}, "/",
             "listing the names of the Python API");
}

std::vector<MethodEntry> method_entries(std::string_view text) {
  std::vector<MethodEntry> entries;
  if (text.find("PyMethodDef") == std::string_view::npos &&
      text.find("PyGetSetDef") == std::string_view::npos) {
    return entries;  // Most files.
  }
  const std::string source = without_comments(text);
  const auto rest_at = [&](std::size_t at) { return std::string_view(source).substr(at); };
  for (const std::string_view type : {"PyMethodDef", "PyGetSetDef"}) {
    for (std::size_t at = source.find(type); at != std::string::npos; at = source.find(type, at)) {
      at += type.size();
      // `PyMethodDef table[] = {` or `std::initializer_list<PyMethodDef> table = {`
      std::size_t next = skip_blanks(source, at);
      next = skip_blanks(source, next + (rest_at(next).starts_with('>') ? 1 : 0));
      const std::string_view table = identifier_at(source, next);
      next = skip_blanks(source, next + table.size());
      next = skip_blanks(source, next + (rest_at(next).starts_with("[]") ? 2 : 0));
      if (table.empty() || !rest_at(next).starts_with('=')) continue;
      next = skip_blanks(source, next + 1);
      if (!rest_at(next).starts_with('{')) continue;
      const auto [items, end] = list_items(source, next);
      for (const std::string_view item : items)
        if (auto entry = entry_of(table, item)) entries.push_back(std::move(*entry));
      at = end;
    }
  }
  return entries;
}

void bind_python_names(IndexContents& contents, const std::vector<std::filesystem::path>& roots) {
  std::map<std::string_view, IndexContents::PythonName*> builtins;
  for (auto& name : contents.python_names)
    if (name.kind == static_cast<char>(PythonKind::builtin)) builtins.emplace(name.name, &name);
  std::set<std::string> files;
  for (const auto& function : contents.functions)
    if (function.file.starts_with("torch/csrc/") && function.file.ends_with(".cpp"))
      files.insert(function.file);
  std::map<std::string, std::vector<MethodEntry>> entries;
  for (const auto& file : files) {
    for (const auto& root : roots) {
      if (auto found = method_entries(read_file(root / file).value_or("")); !found.empty()) {
        entries.emplace(file, std::move(found));
        break;
      }
    }
  }
  const FunctionsByName functions = functions_by_name(contents, files);
  const auto bind = [&](const std::string& name, const std::string& file,
                        const std::string& function_name) {
    const auto builtin = builtins.find(name);
    if (builtin == builtins.end() || !builtin->second->target.empty()) return;
    if (const auto* function = function_of(function_name, file, functions)) {
      builtin->second->target = function->symbol;
      builtin->second->file = function->file;
      builtin->second->line = function->line;
    }
  };
  for (const auto& [name, file, function] : kSlots)
    bind(std::string(name), std::string(file), std::string(function));
  for (const auto& [file, of_file] : entries) {
    for (const auto& entry : of_file) {
      for (const auto& [table, table_file, owner] : kTableOwners)
        if (entry.table == table && (table_file.empty() || file == table_file))
          bind(fmt::format("{}.{}", owner, entry.name), file, entry.function);
    }
  }
}

}  // namespace optrace
