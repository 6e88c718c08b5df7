// The part of UnitExtractor that finds registrations.

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "indexer/frontend/cursor_keys.h"
#include "indexer/frontend/cursors.h"
#include "indexer/frontend/unit_extractor.h"
#include "platform/libclang/clang_text.h"
#include "platform/text/ascii_text.h"

namespace optrace {
namespace {

std::string_view identifier_at(std::string_view text, std::size_t start) {
  std::size_t end = std::min(start, text.size());
  while (end < text.size() && is_word_character(text[end])) ++end;
  return text.substr(std::min(start, text.size()), end - std::min(start, text.size()));
}

// Returns the body of a macro, or an empty string if this file does not define it.
std::string_view macro_body(std::string_view text, std::string_view name) {
  const std::string definition = fmt::format("#define {}(", name);
  const std::size_t start = text.find(definition);
  if (start == std::string_view::npos) return {};
  std::size_t end = text.find('\n', start);
  while (end != std::string_view::npos && text[end - 1] == '\\') end = text.find('\n', end + 1);
  return text.substr(start + definition.size(),
                     std::min(end, text.size()) - start - definition.size());
}

CXChildVisitResult visit_string(CXCursor cursor, CXCursor /*parent*/, CXClientData found) {
  if (clang_getCursorKind(cursor) != CXCursor_StringLiteral) return CXChildVisit_Recurse;
  // As in the source: in quotes, possibly with a prefix.
  const std::string spelling = take(clang_getCursorSpelling(cursor));
  const std::size_t start = spelling.find('"');
  if (start != std::string::npos && spelling.ends_with('"') && start + 1 < spelling.size())
    *static_cast<std::string*>(found) = spelling.substr(start + 1, spelling.size() - start - 2);
  return CXChildVisit_Break;
}

// Returns the first string literal of an expression, or an empty string if there is none.
std::string first_string_in(CXCursor expression) {
  std::string found;
  if (visit_string(expression, clang_getNullCursor(), &found) == CXChildVisit_Recurse)
    clang_visitChildren(expression, &visit_string, &found);
  return found;
}

// Returns the name in a schema or the name itself, with its namespace: `aten::add.Tensor`. Empty if
// it is not a valid op name.
std::string op_name(std::string_view schema, std::string_view library) {
  std::string_view name = schema.substr(0, schema.find('('));
  name = name.substr(0, name.find_last_not_of(' ') + 1);
  const bool is_name = !name.empty() && std::ranges::all_of(name, [](char letter) {
    return is_word_character(letter) || letter == ':' || letter == '.';
  });
  if (!is_name) return "";
  return name.find("::") == std::string_view::npos ? fmt::format("{}::{}", library, name)
                                                   : std::string(name);
}

// Returns a dispatch key as PyTorch prints it, for any of its enumerators (c10/core/DispatchKey.h).
// No key means an alias key (c10::impl::OperatorEntry::registerKernel).
std::string printed_key(std::string_view key) {
  struct Alias {
    std::string_view enumerator;
    std::string_view printed;
  };
  constexpr std::array kAliases = {
      Alias{"", "CompositeImplicitAutograd"},
      Alias{"Autocast", "AutocastCUDA"},
      Alias{"CatchAll", "CompositeImplicitAutograd"},
      Alias{"CPUTensorId", "CPU"},
      Alias{"CUDATensorId", "CUDA"},
      Alias{"DefaultBackend", "CompositeExplicitAutograd"},
      Alias{"PrivateUse1_PreAutograd", "AutogradPrivateUse1"},
      Alias{"PrivateUse2_PreAutograd", "AutogradPrivateUse2"},
      Alias{"PrivateUse3_PreAutograd", "AutogradPrivateUse3"},
  };
  const auto* const found =
      std::ranges::find_if(kAliases, [&](const Alias& alias) { return alias.enumerator == key; });
  return std::string(found == kAliases.end() ? key : found->printed);
}

// Removes the suffix of a name that the preprocessor made unique: `_12`.
std::string_view without_number(std::string_view name) {
  const std::size_t end = name.find_last_not_of("0123456789");
  return end == std::string_view::npos || end + 1 == name.size() || name[end] != '_'
             ? name
             : name.substr(0, end);
}

}  // namespace

void UnitExtractor::take_variable(CXCursor cursor) {
  const Place place = place_of(clang_getCursorLocation(cursor));
  if (place.file == nullptr) return;
  const CXType type = clang_getCursorType(cursor);
  const std::string of = class_name(type);
  if (of.ends_with(kStubType)) {
    if (clang_isCursorDefinition(cursor) == 0)  // DECLARE_DISPATCH, not DEFINE_DISPATCH
      function_sink_({stub_of(type), place.file->name, place.line, {}, DefinitionKind::stub});
    return;
  }
  // `static RegisterCUDADispatch<struct add_stub_DECLARE_DISPATCH_type> ...(add_stub, fn);`
  constexpr std::string_view kRegister = "Register";
  constexpr std::string_view kDispatch = "Dispatch";
  if (of.starts_with(kRegister) && of.ends_with(kDispatch) &&
      of.size() > kRegister.size() + kDispatch.size()) {
    take_stub_kernel(
        cursor, place, stub_of(clang_Type_getTemplateArgumentAsType(type, 0)),
        {of.substr(kRegister.size(), of.size() - kRegister.size() - kDispatch.size())});
    return;
  }
  // `template <> FnPtr DispatchStub<FnPtr, struct add_stub_DECLARE_DISPATCH_type>::AVX2 = fn;`
  const CXCursor parent = clang_getCursorSemanticParent(cursor);
  if (take(clang_getCursorSpelling(parent)) == "DispatchStub") {
    std::vector<std::string> keys = capabilities_of(cursor, take(clang_getCursorSpelling(cursor)));
    for (auto& key : keys) key.insert(0, "CPU.");
    take_stub_kernel(cursor, place,
                     stub_of(clang_Type_getTemplateArgumentAsType(clang_getCursorType(parent), 1)),
                     keys);
  }
}

std::vector<std::string> UnitExtractor::capabilities_of(CXCursor variable,
                                                        const std::string& capability) const {
  CXFile file = nullptr;
  unsigned start = 0;
  std::size_t size = 0;
  clang_getExpansionLocation(clang_getCursorLocation(variable), &file, nullptr, nullptr, &start);
  const char* begin = file == nullptr ? nullptr : clang_getFileContents(unit_, file, &size);
  if (begin == nullptr) return {capability};
  const std::string_view text(begin, size);
  const std::string_view macro = identifier_at(text, start);
  const std::string_view body = macro_body(text, macro);
  const auto is_used = [&](std::string_view name) {
    return macro.starts_with(name) || body.find(name) != std::string_view::npos;
  };
  // A unit that is compiled for each capability is parsed with AVX2 only. DispatchStub.h: for
  // AVX512, REGISTER_DISPATCH registers a null pointer, ALSO_REGISTER_*_DISPATCH the kernel.
  if (capability == "AVX2" && is_used("ALSO_REGISTER_")) return {"DEFAULT", "AVX2", "AVX512"};
  if (capability == "AVX2" && is_used("REGISTER_DISPATCH")) return {"DEFAULT", "AVX2"};
  return {capability};
}

void UnitExtractor::take_stub_kernel(CXCursor variable, const Place& place, const std::string& stub,
                                     const std::vector<std::string>& keys) {
  Arguments arguments{this, "", "", false};
  clang_visitChildren(variable, &UnitExtractor::visit_argument, &arguments);
  if (stub.empty() || arguments.function.empty())
    return;  // A null pointer: there is no kernel for the device or capability.
  for (const auto& key : keys) {
    registration_sink_(
        {RegistrationKind::stub, stub, key, arguments.function, place.file->name, place.line});
  }
}

// Finds the function that an argument names: `TORCH_FN(f)`, `&f`, a lambda,
// `CppFunction::makeFromBoxedFunction<&f>()`, `torch::dispatch(DispatchKey::CPU, f)`.
CXChildVisitResult UnitExtractor::visit_argument(CXCursor cursor, CXCursor /*parent*/,
                                                 CXClientData client) {
  auto* found = static_cast<Arguments*>(client);
  const CXCursorKind kind = clang_getCursorKind(cursor);
  if (kind == CXCursor_LambdaExpr) {
    if (found->function.empty()) {
      found->function =
          found->extractor->lambda_key_of(clang_getTypeDeclaration(clang_getCursorType(cursor)));
    }
    return CXChildVisit_Continue;
  }
  if (kind == CXCursor_CXXStaticCastExpr || kind == CXCursor_CStyleCastExpr) {
    // In `static_cast<decltype(&other)>(f)` the operand matters, not the names in the type.
    const CXCursor operand = last_child(cursor);
    if (visit_argument(operand, cursor, client) == CXChildVisit_Recurse)
      clang_visitChildren(operand, &UnitExtractor::visit_argument, client);
    return CXChildVisit_Continue;
  }
  if (kind != CXCursor_DeclRefExpr) return CXChildVisit_Recurse;
  CXCursor named = clang_getCursorReferenced(cursor);
  if (clang_getCursorKind(named) == CXCursor_OverloadedDeclRef &&
      clang_getNumOverloadedDecls(named) == 1) {
    named = clang_getOverloadedDecl(named, 0);
  }
  const std::string scope = take(clang_getCursorSpelling(clang_getCursorSemanticParent(named)));
  if (clang_getCursorKind(named) == CXCursor_EnumConstantDecl) {
    // After the function, an enumerator is an argument of the function's template.
    if (found->function.empty() && (scope == "DispatchKey" || scope == "DeviceType"))
      found->key = take(clang_getCursorSpelling(named));
  } else if (clang_getCursorKind(named) == CXCursor_VarDecl) {
    if (found->function.empty()) found->function = found->extractor->lambda_key_of(named);
  } else if (is_function(clang_getCursorKind(named))) {
    const std::string name = take(clang_getCursorSpelling(named));
    if (scope == "CppFunction")
      found->is_fallthrough = found->is_fallthrough || name == "makeFallthrough";
    else if (found->function.empty() && !(scope == "torch" && name == "dispatch"))
      found->function = found->extractor->callee_of(named).key;
  }
  return CXChildVisit_Recurse;
}

// Records a call of a member of torch::Library.
void UnitExtractor::take_library_call(const Library& library, CXCursor call,
                                      const std::string& member, CXSourceLocation location) {
  const Place place = place_of(location);
  if (place.file == nullptr) return;
  const bool is_fallback = member == "fallback";
  Arguments arguments{this, "", "", false};
  for (int number = is_fallback ? 0 : 1; number < clang_Cursor_getNumArguments(call); ++number) {
    const CXCursor argument = clang_Cursor_getArgument(call, static_cast<unsigned>(number));
    if (visit_argument(argument, call, &arguments) == CXChildVisit_Recurse)
      clang_visitChildren(argument, &UnitExtractor::visit_argument, &arguments);
  }
  IndexContents::Registration registration;
  registration.name =
      is_fallback ? library.name
                  : op_name(first_string_in(clang_Cursor_getArgument(call, 0)), library.name);
  if (registration.name.empty()) return;
  registration.function = arguments.function;
  registration.file = place.file->name;
  registration.line = place.line;
  if (member == "def") {
    registration.kind = RegistrationKind::definition;
    registration_sink_(registration);
    if (arguments.function.empty() && !arguments.is_fallthrough) return;
  }
  registration.kind = arguments.is_fallthrough ? RegistrationKind::fallthrough
                      : is_fallback            ? RegistrationKind::fallback
                                               : RegistrationKind::kernel;
  registration.key = printed_key(arguments.key.empty() ? library.key : arguments.key);
  registration_sink_(std::move(registration));
}

// `TORCH_LIBRARY_IMPL(aten, CPU, m)` defines a function TORCH_LIBRARY_IMPL_init_aten_CPU_3
// (torch/library.h).
std::optional<UnitExtractor::Library> UnitExtractor::library_of(std::string_view function) {
  constexpr std::string_view kImpl = "TORCH_LIBRARY_IMPL_init_";
  constexpr std::string_view kFragment = "TORCH_LIBRARY_FRAGMENT_init_";
  constexpr std::string_view kDefinition = "TORCH_LIBRARY_init_";
  if (function.starts_with(kImpl)) {
    const std::string_view name = without_number(function.substr(kImpl.size()));
    const std::size_t split = name.rfind('_');
    if (split != std::string_view::npos)
      return Library{std::string(name.substr(0, split)), std::string(name.substr(split + 1))};
  } else if (function.starts_with(kFragment)) {
    return Library{std::string(without_number(function.substr(kFragment.size()))), ""};
  } else if (function.starts_with(kDefinition)) {
    return Library{std::string(function.substr(kDefinition.size())), ""};
  }
  return std::nullopt;
}

}  // namespace optrace
