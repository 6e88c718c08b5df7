#include "indexer/frontend/unit_extractor.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "indexer/frontend/result_type_reader.h"
#include "indexer/frontend/worker_protocol.h"
#include "platform/libclang/clang_text.h"
#include "pytorch/symbols/symbol_key.h"

namespace optrace {
namespace {

bool is_function(CXCursorKind kind) {
  switch (kind) {
    case CXCursor_FunctionDecl:
    case CXCursor_CXXMethod:
    case CXCursor_Constructor:
    case CXCursor_Destructor:
    case CXCursor_ConversionFunction:
    case CXCursor_FunctionTemplate:
      return true;
    default:
      return false;
  }
}

bool holds_functions(CXCursorKind kind) {
  switch (kind) {
    case CXCursor_Namespace:
    case CXCursor_LinkageSpec:
    case CXCursor_ClassDecl:
    case CXCursor_StructDecl:
    case CXCursor_UnionDecl:
    case CXCursor_ClassTemplate:
    case CXCursor_ClassTemplatePartialSpecialization:
    case CXCursor_UnexposedDecl:
      return true;
    default:
      return false;
  }
}

bool is_template(CXCursor cursor) {
  const CXCursorKind kind = clang_getCursorKind(cursor);
  return kind == CXCursor_FunctionTemplate || kind == CXCursor_ClassTemplate ||
         kind == CXCursor_ClassTemplatePartialSpecialization ||
         clang_Cursor_isNull(clang_getSpecializedCursorTemplate(cursor)) == 0;
}

// Returns true for `template <> void f<float>() {}` and declarations within one, but not for an
// instance made by the compiler.
bool is_explicit_specialization(CXTranslationUnit unit, CXCursor cursor) {
  for (CXCursor at = cursor; clang_isDeclaration(clang_getCursorKind(at)) != 0;
       at = clang_getCursorSemanticParent(at)) {
    if (!is_template(at)) {
      continue;
    }
    CXFile file = nullptr;
    unsigned start = 0;
    std::size_t size = 0;
    clang_getFileLocation(clang_getRangeStart(clang_getCursorExtent(at)), &file, nullptr, nullptr,
                          &start);
    const char* text = file == nullptr ? nullptr : clang_getFileContents(unit, file, &size);
    if (text == nullptr || start > size) {
      return false;
    }
    std::string_view rest(text + start, size - start);
    for (const std::string_view part : {"template", "<", ">"}) {
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n"), rest.size()));
      if (!rest.starts_with(part)) {
        return false;
      }
      rest.remove_prefix(part.size());
    }
    return true;
  }
  return false;
}

bool is_within_template(CXCursor cursor) {
  for (CXCursor at = cursor; clang_isDeclaration(clang_getCursorKind(at)) != 0;
       at = clang_getCursorSemanticParent(at)) {
    if (is_template(at)) {
      return true;
    }
  }
  return false;
}

struct OperatorCode {
  std::string_view name;
  std::string_view code;
  std::string_view unary_code = {};
};

constexpr std::array kOperatorCodes = {
    OperatorCode{"operator()", "cl"},        OperatorCode{"operator[]", "ix"},
    OperatorCode{"operator->", "pt"},        OperatorCode{"operator->*", "pm"},
    OperatorCode{"operator=", "aS"},         OperatorCode{"operator==", "eq"},
    OperatorCode{"operator!=", "ne"},        OperatorCode{"operator<", "lt"},
    OperatorCode{"operator>", "gt"},         OperatorCode{"operator<=", "le"},
    OperatorCode{"operator>=", "ge"},        OperatorCode{"operator<=>", "ss"},
    OperatorCode{"operator!", "nt"},         OperatorCode{"operator&&", "aa"},
    OperatorCode{"operator||", "oo"},        OperatorCode{"operator+", "pl", "ps"},
    OperatorCode{"operator-", "mi", "ng"},   OperatorCode{"operator*", "ml", "de"},
    OperatorCode{"operator/", "dv"},         OperatorCode{"operator%", "rm"},
    OperatorCode{"operator&", "an", "ad"},   OperatorCode{"operator|", "or"},
    OperatorCode{"operator^", "eo"},         OperatorCode{"operator~", "co"},
    OperatorCode{"operator<<", "ls"},        OperatorCode{"operator>>", "rs"},
    OperatorCode{"operator+=", "pL"},        OperatorCode{"operator-=", "mI"},
    OperatorCode{"operator*=", "mL"},        OperatorCode{"operator/=", "dV"},
    OperatorCode{"operator%=", "rM"},        OperatorCode{"operator&=", "aN"},
    OperatorCode{"operator|=", "oR"},        OperatorCode{"operator^=", "eO"},
    OperatorCode{"operator<<=", "lS"},       OperatorCode{"operator>>=", "rS"},
    OperatorCode{"operator++", "pp"},        OperatorCode{"operator--", "mm"},
    OperatorCode{"operator,", "cm"},         OperatorCode{"operator new", "nw"},
    OperatorCode{"operator new[]", "na"},    OperatorCode{"operator delete", "dl"},
    OperatorCode{"operator delete[]", "da"},
};

// Returns the number of operands of an operator function, including the object.
int operand_count(CXCursor function) {
  int count = std::max(clang_Cursor_getNumArguments(function), 0);
  const CXCursorKind parent = clang_getCursorKind(clang_getCursorSemanticParent(function));
  if (parent != CXCursor_Namespace && parent != CXCursor_TranslationUnit &&
      clang_CXXMethod_isStatic(function) == 0) {
    ++count;
  }
  return count;
}

// Returns one <unqualified-name> of a template_key, or an empty string if the declaration has none.
std::string component(CXCursor cursor) {
  const CXCursorKind kind = clang_getCursorKind(cursor);
  if (kind == CXCursor_Constructor) {
    return "C1";
  }
  if (kind == CXCursor_Destructor) {
    return "D1";
  }
  if (kind == CXCursor_ConversionFunction) {
    return "cv";
  }
  std::string name = take(clang_getCursorSpelling(cursor));
  if (kind == CXCursor_Namespace) {
    if (name.empty()) {
      return "12_GLOBAL__N_1";
    }
  } else if (is_function(kind)) {
    if (name.starts_with(
            '~')) {  // Templates of constructors and destructors are FunctionTemplates.
      return "D1";
    }
    // A constructor template is spelled `Foo<T>` and named like its class.
    const std::string parent = take(clang_getCursorSpelling(clang_getCursorSemanticParent(cursor)));
    if (!parent.empty() && kind == CXCursor_FunctionTemplate &&
        clang_getTemplateCursorKind(cursor) == CXCursor_Constructor) {
      return "C1";
    }
    if (kind == CXCursor_FunctionTemplate &&
        clang_getTemplateCursorKind(cursor) == CXCursor_ConversionFunction) {
      return "cv";
    }
    for (const auto& known : kOperatorCodes) {
      if (known.name == name) {
        return std::string(!known.unary_code.empty() && operand_count(cursor) == 1
                               ? known.unary_code
                               : known.code);
      }
    }
    if (name.starts_with("operator") && name.size() > 8 && name[8] == ' ') {
      return "cv";
    }
  }
  if (name.empty() || name.find_first_of(" ()<>\"") != std::string::npos) {
    return "";
  }
  return std::to_string(name.size()) + name;
}

// Returns the key that template_key in symbol_key.h returns for the symbol of an instance.
std::string template_key_of(CXCursor cursor) {
  std::string key;
  for (CXCursor at = cursor;; at = clang_getCursorSemanticParent(at)) {
    const CXCursorKind kind = clang_getCursorKind(at);
    if (kind == CXCursor_TranslationUnit || clang_isInvalid(kind) != 0) {
      break;
    }
    if (kind == CXCursor_LinkageSpec || kind == CXCursor_UnexposedDecl) {
      continue;
    }
    if (clang_isDeclaration(kind) == 0 || (is_function(kind) && !key.empty())) {
      return "";  // The declaration is in a function.
    }
    const std::string part = component(at);
    if (part.empty()) {
      return "";
    }
    key.insert(0, part == "3std" && kind == CXCursor_Namespace ? "St" : part);
  }
  // template_key folds CPU capabilities and the like as in a symbol.
  return template_key("_ZN" + key + "Ev").value_or("");
}

std::string key_of(CXCursor function) {
  if (is_within_template(function)) {
    return template_key_of(function);
  }
  return canonical_symbol(take(clang_Cursor_getMangling(function)));
}

// Returns true for functions that no report shows: those of the C++ standard library and of
// stand_ins/.
bool is_left_out(std::string_view symbol) {
  return symbol.find("stand_in_") != std::string_view::npos || symbol.starts_with("_ZNSt") ||
         symbol.starts_with("_ZNKSt") || symbol.starts_with("_ZSt") ||
         symbol.starts_with("_ZN9__gnu_cxx") || symbol.starts_with("_ZNK9__gnu_cxx") ||
         symbol.starts_with("_ZNSa") || symbol.starts_with("_ZNSs") ||
         symbol.starts_with("_ZNKSs") || symbol.starts_with("__builtin_");
}

// The parameters of a lambda: the letters for lambda_key, and the types to distinguish signatures.
struct Signature {
  bool of_template = false;
  std::string letters;
  std::string types;
};

char letter_of(CXType type) {
  switch (type.kind) {
    case CXType_Bool:
      return 'b';
    case CXType_Char_S:
    case CXType_Char_U:
      return 'c';
    case CXType_SChar:
      return 'a';
    case CXType_UChar:
      return 'h';
    case CXType_Short:
      return 's';
    case CXType_UShort:
      return 't';
    case CXType_Int:
      return 'i';
    case CXType_UInt:
      return 'j';
    case CXType_Long:
      return 'l';
    case CXType_ULong:
      return 'm';
    case CXType_LongLong:
      return 'x';
    case CXType_ULongLong:
      return 'y';
    case CXType_Float:
      return 'f';
    case CXType_Double:
      return 'd';
    default:
      return '.';
  }
}

CXChildVisitResult visit_first(CXCursor cursor, CXCursor /*parent*/, CXClientData first) {
  *static_cast<CXCursor*>(first) = cursor;
  return CXChildVisit_Break;
}

CXCursor first_child(CXCursor cursor) {
  CXCursor first = clang_getNullCursor();
  clang_visitChildren(cursor, &visit_first, &first);
  return first;
}

CXChildVisitResult visit_last(CXCursor cursor, CXCursor /*parent*/, CXClientData last) {
  *static_cast<CXCursor*>(last) = cursor;
  return CXChildVisit_Continue;
}

CXCursor last_child(CXCursor cursor) {
  CXCursor last = clang_getNullCursor();
  clang_visitChildren(cursor, &visit_last, &last);
  return last;
}

// Returns the expression before a call's parenthesis.
CXCursor called_expression(CXCursor call) {
  CXCursor called = first_child(call);
  while (clang_getCursorKind(called) == CXCursor_ParenExpr ||
         clang_getCursorKind(called) == CXCursor_UnexposedExpr) {
    called = first_child(called);
  }
  return called;
}

// Returns the end of the name in a member expression. A call starts where its object does, so in a
// chain over several lines only the end of the name is on the right line.
CXSourceLocation end_of_member(CXCursor member) {
  return clang_getRangeEnd(clang_getCursorExtent(member));
}

// Returns the class, or the class template, of the object of a member expression.
CXCursor class_of_object(CXCursor member) {
  CXType type = clang_getCursorType(first_child(member));
  while (type.kind == CXType_Pointer || type.kind == CXType_LValueReference ||
         type.kind == CXType_RValueReference) {
    type = clang_getPointeeType(type);
  }
  return clang_getTypeDeclaration(type);
}

struct NamedMember {
  std::string_view name;
  CXCursor found;
};

CXChildVisitResult visit_member(CXCursor cursor, CXCursor /*parent*/, CXClientData wanted) {
  auto* member = static_cast<NamedMember*>(wanted);
  if (is_function(clang_getCursorKind(cursor)) &&
      take(clang_getCursorSpelling(cursor)) == member->name) {
    member->found = cursor;
    return CXChildVisit_Break;
  }
  return CXChildVisit_Continue;
}

// Returns the last name in a piece of source, without the template arguments after it.
std::string_view last_name(std::string_view text) {
  if (text.ends_with('>')) {
    int depth = 0;
    std::size_t at = text.size();
    do {
      --at;
      depth += text[at] == '>' ? 1 : text[at] == '<' ? -1 : 0;
    } while (at > 0 && depth > 0);
    text = text.substr(0, at);
  }
  std::size_t start = text.size();
  while (start > 0 && (std::isalnum(static_cast<unsigned char>(text[start - 1])) != 0 ||
                       text[start - 1] == '_')) {
    --start;
  }
  return text.substr(start);
}

CXChildVisitResult visit_parameter(CXCursor cursor, CXCursor /*parent*/, CXClientData signature) {
  if (clang_getCursorKind(cursor) == CXCursor_ParmDecl) {
    auto* found = static_cast<Signature*>(signature);
    const CXType type = clang_getCanonicalType(clang_getCursorType(cursor));
    found->letters += found->of_template ? '.' : letter_of(type);
    found->types += take(clang_getTypeSpelling(type)) + ',';
  }
  return CXChildVisit_Continue;
}

std::uint64_t hash_of(const IndexContents::Function& function) {
  std::string text;
  append_function(function, text);
  return std::hash<std::string>()(text);
}

bool is_class(CXCursorKind kind) {
  return kind == CXCursor_ClassDecl || kind == CXCursor_StructDecl ||
         kind == CXCursor_ClassTemplate;
}

CXChildVisitResult visit_attribute(CXCursor cursor, CXCursor /*parent*/, CXClientData is_global) {
  // A function's first children are its template parameters and its attributes.
  switch (const CXCursorKind kind = clang_getCursorKind(cursor)) {
    case CXCursor_CUDAGlobalAttr:
      *static_cast<bool*>(is_global) = true;
      return CXChildVisit_Break;
    case CXCursor_TemplateTypeParameter:
    case CXCursor_NonTypeTemplateParameter:
    case CXCursor_TemplateTemplateParameter:
      return CXChildVisit_Continue;
    default:
      return clang_isAttribute(kind) != 0 ? CXChildVisit_Continue : CXChildVisit_Break;
  }
}

// Returns true for a `__global__` function or a template of one.
bool is_device_kernel(CXCursor function) {
  const CXCursor pattern = clang_getSpecializedCursorTemplate(function);
  bool is_global = false;
  clang_visitChildren(clang_Cursor_isNull(pattern) != 0 ? function : pattern, &visit_attribute,
                      &is_global);
  return is_global;
}

// Returns true for functions of the CUDA runtime and driver that launch a kernel passed to them.
bool is_launcher(CXCursor function) {
  const std::string name = take(clang_getCursorSpelling(function));
  return name.starts_with("cudaLaunch") || name.starts_with("cuLaunch");
}

// Returns a key such as `_ZTIN2at8TensorBaseE`, or an empty string for a class in a function or
// without a name.
std::string type_key_of(CXCursor type) {
  const std::string key = template_key_of(type);  // _ZN2at8TensorBaseE
  constexpr std::string_view kStart = "_ZN";
  if (!key.starts_with(kStart)) {
    return "";
  }
  const bool is_nested =
      clang_getCursorKind(clang_getCursorSemanticParent(type)) != CXCursor_TranslationUnit;
  return is_nested ? "_ZTI" + key.substr(2)
                   : "_ZTI" + key.substr(kStart.size(), key.size() - kStart.size() - 1);
}

// DECLARE_DISPATCH(fn, add_stub) declares `struct add_stub_DECLARE_DISPATCH_type` and a variable of
// that type.
constexpr std::string_view kStubType = "_DECLARE_DISPATCH_type";

std::string class_name(CXType type) {
  return take(clang_getCursorSpelling(clang_getTypeDeclaration(type)));
}

bool is_stub_type(CXType type) {
  return class_name(type).ends_with(kStubType);
}

// Returns the symbol of the stub with this type, or an empty string for any other type.
std::string stub_of(CXType type) {
  std::string name = class_name(type);
  if (!name.ends_with(kStubType)) {
    return "";
  }
  name.resize(name.size() - kStubType.size());
  std::string scope;
  for (CXCursor at = clang_getCursorSemanticParent(clang_getTypeDeclaration(type));
       clang_getCursorKind(at) == CXCursor_Namespace; at = clang_getCursorSemanticParent(at)) {
    scope.insert(0, component(at));
  }
  return scope.empty() ? name
                       : canonical_symbol(fmt::format("_ZN{}{}{}E", scope, name.size(), name));
}

// The template_key of DispatchStub's operator() (aten/src/ATen/native/DispatchStub.h).
constexpr std::string_view kCallOfStub = "_ZN2at6native12DispatchStubclE";

std::string_view identifier_at(std::string_view text, std::size_t start) {
  std::size_t end = std::min(start, text.size());
  while (end < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) {
    ++end;
  }
  return text.substr(std::min(start, text.size()), end - std::min(start, text.size()));
}

// Returns the body of a macro, or an empty string if this file does not define it.
std::string_view macro_body(std::string_view text, std::string_view name) {
  const std::string definition = fmt::format("#define {}(", name);
  const std::size_t start = text.find(definition);
  if (start == std::string_view::npos) {
    return {};
  }
  std::size_t end = text.find('\n', start);
  while (end != std::string_view::npos && text[end - 1] == '\\') {
    end = text.find('\n', end + 1);
  }
  return text.substr(start + definition.size(),
                     std::min(end, text.size()) - start - definition.size());
}

CXChildVisitResult visit_string(CXCursor cursor, CXCursor /*parent*/, CXClientData found) {
  if (clang_getCursorKind(cursor) != CXCursor_StringLiteral) {
    return CXChildVisit_Recurse;
  }
  // As in the source: in quotes, possibly with a prefix.
  const std::string spelling = take(clang_getCursorSpelling(cursor));
  const std::size_t start = spelling.find('"');
  if (start != std::string::npos && spelling.ends_with('"') && start + 1 < spelling.size()) {
    *static_cast<std::string*>(found) = spelling.substr(start + 1, spelling.size() - start - 2);
  }
  return CXChildVisit_Break;
}

// Returns the first string literal of an expression, or an empty string if there is none.
std::string first_string_in(CXCursor expression) {
  std::string found;
  if (visit_string(expression, clang_getNullCursor(), &found) == CXChildVisit_Recurse) {
    clang_visitChildren(expression, &visit_string, &found);
  }
  return found;
}

// Returns the name in a schema or the name itself, with its namespace: `aten::add.Tensor`. Empty if
// it is not a valid op name.
std::string op_name(std::string_view schema, std::string_view library) {
  std::string_view name = schema.substr(0, schema.find('('));
  name = name.substr(0, name.find_last_not_of(' ') + 1);
  const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' ||
           letter == ':' || letter == '.';
  });
  if (!is_name) {
    return "";
  }
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
  const auto* const found = std::find_if(kAliases.begin(), kAliases.end(), [&](const Alias& alias) {
    return alias.enumerator == key;
  });
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

void UnitExtractor::extract(CXTranslationUnit unit) {
  files_.clear();
  callees_.clear();
  lambda_keys_.clear();
  seen_.clear();
  unit_ = unit;
  main_file_ = take(clang_getTranslationUnitSpelling(unit));
  clang_visitChildren(clang_getTranslationUnitCursor(unit), &UnitExtractor::visit_declaration,
                      this);
}

CXChildVisitResult UnitExtractor::visit_declaration(CXCursor cursor, CXCursor /*parent*/,
                                                    CXClientData self) {
  auto* extractor = static_cast<UnitExtractor*>(self);
  const CXCursorKind kind = clang_getCursorKind(cursor);
  if (is_function(kind)) {
    extractor->take_function(cursor);
    return CXChildVisit_Continue;
  }
  if (kind == CXCursor_VarDecl) {
    extractor->take_variable(cursor);
    return CXChildVisit_Continue;
  }
  if (kind == CXCursor_EnumDecl) {
    extractor->take_type(cursor, DefinitionKind::enumeration);
    return CXChildVisit_Continue;
  }
  if (!holds_functions(kind)) {
    return CXChildVisit_Continue;
  }
  // A macro can reopen a namespace, so its location may be elsewhere. Any other declaration outside
  // the tree contains nothing of it.
  if (extractor->place_of(clang_getCursorLocation(cursor)).file == nullptr) {
    return CXChildVisit_Continue;
  }
  if (is_class(kind)) {
    extractor->take_type(cursor, DefinitionKind::type);
  }
  return CXChildVisit_Recurse;
}

void UnitExtractor::take_type(CXCursor cursor, DefinitionKind kind) {
  if (clang_isCursorDefinition(cursor) == 0) {
    return;
  }
  const Place place = place_of(clang_getCursorLocation(cursor));
  if (place.file == nullptr) {
    return;
  }
  std::string key = type_key_of(cursor);
  if (!key.empty() && !is_left_out(key)) {
    std::string result =
        kind == DefinitionKind::enumeration ? result_type_text(clang_getCursorType(cursor)) : "";
    function_sink_(
        {std::move(key), place.file->name, place.line, {}, kind, std::nullopt, std::move(result)});
  }
}

void UnitExtractor::take_variable(CXCursor cursor) {
  const Place place = place_of(clang_getCursorLocation(cursor));
  if (place.file == nullptr) {
    return;
  }
  const CXType type = clang_getCursorType(cursor);
  const std::string of = class_name(type);
  if (of.ends_with(kStubType)) {
    if (clang_isCursorDefinition(cursor) == 0) {  // DECLARE_DISPATCH, not DEFINE_DISPATCH
      function_sink_({stub_of(type), place.file->name, place.line, {}, DefinitionKind::stub});
    }
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
    for (auto& key : keys) {
      key.insert(0, "CPU.");
    }
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
  if (begin == nullptr) {
    return {capability};
  }
  const std::string_view text(begin, size);
  const std::string_view macro = identifier_at(text, start);
  const std::string_view body = macro_body(text, macro);
  const auto is_used = [&](std::string_view name) {
    return macro.starts_with(name) || body.find(name) != std::string_view::npos;
  };
  // A unit that is compiled for each capability is parsed with AVX2 only. DispatchStub.h: for
  // AVX512, REGISTER_DISPATCH registers a null pointer, ALSO_REGISTER_*_DISPATCH the kernel.
  if (capability == "AVX2" && is_used("ALSO_REGISTER_")) {
    return {"DEFAULT", "AVX2", "AVX512"};
  }
  if (capability == "AVX2" && is_used("REGISTER_DISPATCH")) {
    return {"DEFAULT", "AVX2"};
  }
  return {capability};
}

void UnitExtractor::take_stub_kernel(CXCursor variable, const Place& place, const std::string& stub,
                                     const std::vector<std::string>& keys) {
  Arguments arguments{this, "", "", false};
  clang_visitChildren(variable, &UnitExtractor::visit_argument, &arguments);
  if (stub.empty() || arguments.function.empty()) {
    return;  // A null pointer: there is no kernel for the device or capability.
  }
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
    if (visit_argument(operand, cursor, client) == CXChildVisit_Recurse) {
      clang_visitChildren(operand, &UnitExtractor::visit_argument, client);
    }
    return CXChildVisit_Continue;
  }
  if (kind != CXCursor_DeclRefExpr) {
    return CXChildVisit_Recurse;
  }
  CXCursor named = clang_getCursorReferenced(cursor);
  if (clang_getCursorKind(named) == CXCursor_OverloadedDeclRef &&
      clang_getNumOverloadedDecls(named) == 1) {
    named = clang_getOverloadedDecl(named, 0);
  }
  const std::string scope = take(clang_getCursorSpelling(clang_getCursorSemanticParent(named)));
  if (clang_getCursorKind(named) == CXCursor_EnumConstantDecl) {
    // After the function, an enumerator is an argument of the function's template.
    if (found->function.empty() && (scope == "DispatchKey" || scope == "DeviceType")) {
      found->key = take(clang_getCursorSpelling(named));
    }
  } else if (clang_getCursorKind(named) == CXCursor_VarDecl) {
    if (found->function.empty()) {
      found->function = found->extractor->lambda_key_of(named);
    }
  } else if (is_function(clang_getCursorKind(named))) {
    const std::string name = take(clang_getCursorSpelling(named));
    if (scope == "CppFunction") {
      found->is_fallthrough = found->is_fallthrough || name == "makeFallthrough";
    } else if (found->function.empty() && !(scope == "torch" && name == "dispatch")) {
      found->function = found->extractor->callee_of(named).key;
    }
  }
  return CXChildVisit_Recurse;
}

// Records a call of a member of torch::Library.
void UnitExtractor::take_library_call(const Library& library, CXCursor call,
                                      const std::string& member, CXSourceLocation location) {
  const Place place = place_of(location);
  if (place.file == nullptr) {
    return;
  }
  const bool is_fallback = member == "fallback";
  Arguments arguments{this, "", "", false};
  for (int number = is_fallback ? 0 : 1; number < clang_Cursor_getNumArguments(call); ++number) {
    const CXCursor argument = clang_Cursor_getArgument(call, static_cast<unsigned>(number));
    if (visit_argument(argument, call, &arguments) == CXChildVisit_Recurse) {
      clang_visitChildren(argument, &UnitExtractor::visit_argument, &arguments);
    }
  }
  IndexContents::Registration registration;
  registration.name =
      is_fallback ? library.name
                  : op_name(first_string_in(clang_Cursor_getArgument(call, 0)), library.name);
  if (registration.name.empty()) {
    return;
  }
  registration.function = arguments.function;
  registration.file = place.file->name;
  registration.line = place.line;
  if (member == "def") {
    registration.kind = RegistrationKind::definition;
    registration_sink_(registration);
    if (arguments.function.empty() && !arguments.is_fallthrough) {
      return;
    }
  }
  registration.kind = arguments.is_fallthrough ? RegistrationKind::fallthrough
                      : is_fallback            ? RegistrationKind::fallback
                                               : RegistrationKind::kernel;
  registration.key = printed_key(arguments.key.empty() ? library.key : arguments.key);
  registration_sink_(std::move(registration));
}

UnitExtractor::Place UnitExtractor::place_of(CXSourceLocation location) {
  CXFile file = nullptr;
  unsigned line = 0;
  // The position in the file: for a macro's argument where it is spelled, for a macro's body where
  // the macro is used.
  clang_getFileLocation(location, &file, &line, nullptr, nullptr);
  if (file == nullptr) {
    return {};
  }
  const auto [known, is_new] = files_.try_emplace(file);
  if (is_new) {
    const std::string path = take(clang_getFileName(file));
    auto name = paths_(path);
    known->second = {name.has_value(), std::move(name).value_or(""), path != main_file_};
  }
  if (!known->second.is_indexed) {
    return {};
  }
  return {&known->second, line};
}

void UnitExtractor::take_function(CXCursor cursor) {
  if (clang_isCursorDefinition(cursor) == 0 || clang_CXXMethod_isDefaulted(cursor) != 0) {
    return;
  }
  const Place place = place_of(clang_getCursorLocation(cursor));
  if (place.file == nullptr) {
    return;
  }
  std::string key = key_of(cursor);
  if (key.empty()) {
    return;
  }
  const bool in_template = is_within_template(cursor);
  const std::optional<Library> library = key.find("TORCH_LIBRARY_") == std::string::npos
                                             ? std::nullopt
                                             : library_of(take(clang_getCursorSpelling(cursor)));
  Open open{{std::move(key),
             place.file->name,
             place.line,
             {},
             is_device_kernel(cursor) ? DefinitionKind::device_kernel : DefinitionKind::function,
             std::nullopt,
             result_type_text(clang_getResultType(clang_getCursorType(cursor)))},
            "",
            false,
            in_template,
            {}};
  if (in_template && is_explicit_specialization(unit_, cursor)) {
    // Stored under its own symbol as well as under the template's key.
    open.own_symbol = canonical_symbol(take(clang_Cursor_getMangling(cursor)));
  }
  auto around = std::exchange(library_, library);
  walk(cursor, place, std::move(open));
  library_ = std::move(around);
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
    if (split != std::string_view::npos) {
      return Library{std::string(name.substr(0, split)), std::string(name.substr(split + 1))};
    }
  } else if (function.starts_with(kFragment)) {
    return Library{std::string(without_number(function.substr(kFragment.size()))), ""};
  } else if (function.starts_with(kDefinition)) {
    return Library{std::string(function.substr(kDefinition.size())), ""};
  }
  return std::nullopt;
}

void UnitExtractor::take_lambda(CXCursor cursor, CXCursor parent) {
  const Place place = place_of(clang_getCursorLocation(cursor));
  if (place.file == nullptr || place.file->name != open_.back().function.file) {
    clang_visitChildren(cursor, &UnitExtractor::visit_body, this);
    return;
  }
  Signature signature{open_.back().is_template, "", ""};
  clang_visitChildren(cursor, &visit_parameter, &signature);
  const int number = open_.back().lambdas[signature.types]++;
  std::string key =
      fmt::format("{}Ul{}#{}", open_.back().function.symbol, signature.letters, number);
  lambda_keys_[clang_getTypeDeclaration(clang_getCursorType(cursor)).data[0]] = key;
  if (clang_getCursorKind(parent) == CXCursor_VarDecl) {
    // In a template, the type of an `auto` variable is unknown.
    lambda_keys_[parent.data[0]] = key;
  }
  walk(cursor, place,
       {{std::move(key), place.file->name, place.line, {}}, "", true, signature.of_template, {}});
}

void UnitExtractor::walk(CXCursor cursor, const Place& place, Open open) {
  open_.push_back(std::move(open));
  clang_visitChildren(cursor, &UnitExtractor::visit_body, this);
  IndexContents::Function function = std::move(open_.back().function);
  const std::string own_symbol = std::move(open_.back().own_symbol);
  open_.pop_back();
  auto& calls = function.calls;
  std::sort(calls.begin(), calls.end());
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  // Different functions of headers are mistaken for each other with a probability of about 2^-64.
  if (place.file->is_header && !seen_.insert(hash_of(function)).second) {
    return;
  }
  if (!own_symbol.empty() && own_symbol != function.symbol) {
    IndexContents::Function specialization = function;
    specialization.symbol = own_symbol;
    function_sink_(std::move(specialization));
  }
  function_sink_(std::move(function));
}

CXChildVisitResult UnitExtractor::visit_body(CXCursor cursor, CXCursor parent, CXClientData self) {
  auto* extractor = static_cast<UnitExtractor*>(self);
  const CXCursorKind kind = clang_getCursorKind(cursor);
  if (is_function(kind)) {  // A member of a local class.
    extractor->take_function(cursor);
    return CXChildVisit_Continue;
  }
  if (kind == CXCursor_LambdaExpr) {
    extractor->take_lambda(cursor, parent);
    return CXChildVisit_Continue;
  }
  if (kind == CXCursor_CallExpr) {
    // The children first: one of them may be the lambda that is called.
    const OpenCall call{called_expression(cursor), clang_getCursorReferenced(cursor)};
    extractor->open_calls_.push_back(call);
    clang_visitChildren(cursor, &UnitExtractor::visit_body, self);
    extractor->open_calls_.pop_back();
    extractor->take_call(cursor, call);
    return CXChildVisit_Continue;
  }
  if (kind == CXCursor_DeclRefExpr) {
    extractor->take_reference(cursor);
  }
  return CXChildVisit_Recurse;
}

void UnitExtractor::take_reference(CXCursor expression) {
  const CXCursor named = clang_getCursorReferenced(expression);
  if (clang_getCursorKind(named) == CXCursor_OverloadedDeclRef) {
    take_kernel_reference(expression, named);
    return;
  }
  if (clang_getCursorKind(named) == CXCursor_VarDecl) {
    // A stub passed as an argument is called there: `scatter_impl(..., scatter_stub)`.
    const bool called =
        !open_calls_.empty() && clang_equalCursors(expression, open_calls_.back().callee) != 0;
    if (!called && is_stub_type(clang_getCursorType(named))) {
      add_call(stub_of(clang_getCursorType(named)), clang_getCursorLocation(expression),
               CallKind::reference);
    }
    return;
  }
  if (!is_function(clang_getCursorKind(named))) {
    return;
  }
  const Callee& callee = callee_of(named);
  CallKind kind = CallKind::reference;
  if (!open_calls_.empty()) {
    const OpenCall& call = open_calls_.back();
    if (clang_equalCursors(expression, call.callee) != 0 ||
        clang_equalCursors(named, call.referenced) != 0) {
      return;
    }
    if (callee.is_device_kernel && is_launcher(call.referenced)) {
      kind = CallKind::launch;
    }
  }
  add_call(callee.key, clang_getCursorLocation(expression), kind);
}

// In a template, `auto kernel = &flash_fwd_kernel<T, true>;` is not resolved yet, so all overloads
// of that name are candidates. Only device kernels need this, since they are launched through the
// variable.
void UnitExtractor::take_kernel_reference(CXCursor expression, CXCursor overloads) {
  if (!open_calls_.empty() && clang_equalCursors(expression, open_calls_.back().callee) != 0) {
    return;  // It is called: take_call handles it.
  }
  for (unsigned at = 0; at < clang_getNumOverloadedDecls(overloads); ++at) {
    const CXCursor overload = clang_getOverloadedDecl(overloads, at);
    if (!is_function(clang_getCursorKind(overload))) {
      continue;
    }
    if (const Callee& callee = callee_of(overload); callee.is_device_kernel) {
      add_call(callee.key, clang_getCursorLocation(expression), CallKind::reference);
    }
  }
}

void UnitExtractor::take_call(CXCursor call, const OpenCall& open) {
  const CXCursor called = open.callee;
  const bool is_member = clang_getCursorKind(called) == CXCursor_MemberRefExpr;
  CXSourceLocation location = clang_getCursorLocation(is_member ? called : call);
  if (is_function(clang_getCursorKind(open.referenced))) {
    const Callee& callee = callee_of(open.referenced);
    add_call(callee, location);
    if (callee.key == kCallOfStub) {
      add_call(stub_of(clang_getCursorType(clang_getCursorReferenced(called))), location,
               CallKind::stub);
    }
    if (library_ && take(clang_getCursorSpelling(clang_getCursorSemanticParent(open.referenced))) ==
                        "Library") {
      const std::string member = take(clang_getCursorSpelling(open.referenced));
      if (member == "def" || member == "impl" || member == "fallback") {
        take_library_call(*library_, call, member, location);
      }
    }
    return;
  }
  // In a template, a call may not be resolved yet.
  switch (clang_getCursorKind(called)) {
    case CXCursor_LambdaExpr:
      add_call(lambda_key_of(clang_getTypeDeclaration(clang_getCursorType(called))), location);
      return;
    case CXCursor_DeclRefExpr:
    case CXCursor_MemberRefExpr:
      break;
    default:
      return;
  }
  const CXCursor named = clang_getCursorReferenced(called);
  if (is_member) {
    location = end_of_member(called);
  }
  switch (clang_getCursorKind(named)) {
    case CXCursor_VarDecl:
      if (is_stub_type(clang_getCursorType(named))) {
        add_call(std::string(kCallOfStub), location);
        add_call(stub_of(clang_getCursorType(named)), location, CallKind::stub);
      } else {
        add_call(lambda_key_of(named), location);
      }
      return;
    case CXCursor_OverloadedDeclRef:
      for (unsigned at = 0; at < clang_getNumOverloadedDecls(named); ++at) {
        const CXCursor overload = clang_getOverloadedDecl(named, at);
        if (is_function(clang_getCursorKind(overload))) {
          add_call(callee_of(overload), location);
        }
      }
      return;
    default:
      if (is_member && clang_Cursor_isNull(named) != 0) {
        if (const Callee* member = dependent_member(called)) {
          add_call(*member, location);
        }
      }
  }
}

void UnitExtractor::add_call(const Callee& callee, CXSourceLocation location) {
  add_call(callee.key, location, callee.is_device_kernel ? CallKind::launch : CallKind::call);
}

void UnitExtractor::add_call(const std::string& callee, CXSourceLocation location, CallKind kind) {
  if (callee.empty()) {
    return;
  }
  const Place place = place_of(location);
  if (place.file == nullptr) {
    return;
  }
  for (auto open = open_.rbegin(); open != open_.rend(); ++open) {
    if (place.file->name == open->function.file) {
      open->function.calls.push_back({callee, place.line, kind});
    }
    if (!open->is_lambda) {
      break;
    }
  }
}

const UnitExtractor::Callee& UnitExtractor::callee_of(CXCursor referenced) {
  // libclang stores a declaration's address in data[0]. It is valid while the unit exists.
  const auto [known, is_new] = callees_.try_emplace(referenced.data[0]);
  Callee& callee = known->second;
  // A lambda's operator() is identified by its class, once the lambda has been visited.
  const auto lambda = lambda_keys_.find(clang_getCursorSemanticParent(referenced).data[0]);
  if (lambda != lambda_keys_.end()) {
    callee.key = lambda->second;
  } else if (is_new) {
    std::string key = key_of(referenced);
    if (!is_left_out(key)) {
      callee = {std::move(key), is_device_kernel(referenced)};
    }
  }
  return callee;
}

std::string UnitExtractor::lambda_key_of(CXCursor declaration) const {
  const auto known = lambda_keys_.find(declaration.data[0]);
  return known == lambda_keys_.end() ? "" : known->second;
}

const UnitExtractor::Callee* UnitExtractor::dependent_member(CXCursor member) {
  const CXCursor of = class_of_object(member);
  if (clang_getCursorKind(of) != CXCursor_ClassTemplate) {
    return nullptr;
  }
  // libclang does not provide the name of an unresolved member, so it is read from the source.
  CXFile file = nullptr;
  unsigned end = 0;
  clang_getFileLocation(end_of_member(member), &file, nullptr, nullptr, &end);
  std::size_t size = 0;
  const char* text = file == nullptr ? nullptr : clang_getFileContents(unit_, file, &size);
  if (text == nullptr || end > size) {
    return nullptr;
  }
  NamedMember wanted{last_name({text, end}), clang_getNullCursor()};
  if (wanted.name.empty()) {
    return nullptr;
  }
  clang_visitChildren(of, &visit_member, &wanted);
  return clang_Cursor_isNull(wanted.found) != 0 ? nullptr : &callee_of(wanted.found);
}

}  // namespace optrace
