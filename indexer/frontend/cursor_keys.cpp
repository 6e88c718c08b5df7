#include "indexer/frontend/cursor_keys.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "indexer/frontend/cursors.h"
#include "platform/libclang/clang_text.h"
#include "pytorch/symbols/symbol_key.h"

namespace optrace {
namespace {

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
  if (kind == CXCursor_Constructor) return "C1";
  if (kind == CXCursor_Destructor) return "D1";
  if (kind == CXCursor_ConversionFunction) return "cv";
  std::string name = take(clang_getCursorSpelling(cursor));
  if (kind == CXCursor_Namespace) {
    if (name.empty()) return "12_GLOBAL__N_1";
  } else if (is_function(kind)) {
    if (name.starts_with('~'))  // Templates of constructors and destructors are FunctionTemplates.
      return "D1";
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
    if (name.starts_with("operator") && name.size() > 8 && name[8] == ' ') return "cv";
  }
  if (name.empty() || name.find_first_of(" ()<>\"") != std::string::npos) return "";
  return std::to_string(name.size()) + name;
}

// Returns the key that template_key in symbol_key.h returns for the symbol of an instance.
std::string template_key_of(CXCursor cursor) {
  std::string key;
  for (CXCursor at = cursor;; at = clang_getCursorSemanticParent(at)) {
    const CXCursorKind kind = clang_getCursorKind(at);
    if (kind == CXCursor_TranslationUnit || clang_isInvalid(kind) != 0) break;
    if (kind == CXCursor_LinkageSpec || kind == CXCursor_UnexposedDecl) continue;
    if (clang_isDeclaration(kind) == 0 || (is_function(kind) && !key.empty()))
      return "";  // The declaration is in a function.
    const std::string part = component(at);
    if (part.empty()) return "";
    key.insert(0, part == "3std" && kind == CXCursor_Namespace ? "St" : part);
  }
  // template_key folds CPU capabilities and the like as in a symbol.
  return template_key("_ZN" + key + "Ev").value_or("");
}

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

CXChildVisitResult visit_parameter(CXCursor cursor, CXCursor /*parent*/, CXClientData signature) {
  if (clang_getCursorKind(cursor) == CXCursor_ParmDecl) {
    auto* found = static_cast<Signature*>(signature);
    const CXType type = clang_getCanonicalType(clang_getCursorType(cursor));
    found->letters += found->of_template ? '.' : letter_of(type);
    found->types += take(clang_getTypeSpelling(type)) + ',';
  }
  return CXChildVisit_Continue;
}

}  // namespace

std::string key_of(CXCursor function) {
  if (is_within_template(function)) return template_key_of(function);
  return canonical_symbol(take(clang_Cursor_getMangling(function)));
}

std::string type_key_of(CXCursor type) {
  const std::string key = template_key_of(type);  // _ZN2at8TensorBaseE
  constexpr std::string_view kStart = "_ZN";
  if (!key.starts_with(kStart)) return "";
  const bool is_nested =
      clang_getCursorKind(clang_getCursorSemanticParent(type)) != CXCursor_TranslationUnit;
  return is_nested ? "_ZTI" + key.substr(2)
                   : "_ZTI" + key.substr(kStart.size(), key.size() - kStart.size() - 1);
}

bool is_left_out(std::string_view symbol) {
  return symbol.find("stand_in_") != std::string_view::npos || symbol.starts_with("_ZNSt") ||
         symbol.starts_with("_ZNKSt") || symbol.starts_with("_ZSt") ||
         symbol.starts_with("_ZN9__gnu_cxx") || symbol.starts_with("_ZNK9__gnu_cxx") ||
         symbol.starts_with("_ZNSa") || symbol.starts_with("_ZNSs") ||
         symbol.starts_with("_ZNKSs") || symbol.starts_with("__builtin_");
}

Signature signature_of(CXCursor lambda, bool of_template) {
  Signature signature{of_template, "", ""};
  clang_visitChildren(lambda, &visit_parameter, &signature);
  return signature;
}

bool is_stub_type(CXType type) {
  return class_name(type).ends_with(kStubType);
}

std::string class_name(CXType type) {
  return take(clang_getCursorSpelling(clang_getTypeDeclaration(type)));
}

std::string stub_of(CXType type) {
  std::string name = class_name(type);
  if (!name.ends_with(kStubType)) return "";
  name.resize(name.size() - kStubType.size());
  std::string scope;
  for (CXCursor at = clang_getCursorSemanticParent(clang_getTypeDeclaration(type));
       clang_getCursorKind(at) == CXCursor_Namespace; at = clang_getCursorSemanticParent(at)) {
    scope.insert(0, component(at));
  }
  return scope.empty() ? name
                       : canonical_symbol(fmt::format("_ZN{}{}{}E", scope, name.size(), name));
}

}  // namespace optrace
