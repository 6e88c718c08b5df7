#include "indexer/frontend/result_type_reader.h"

#include <optional>
#include <string_view>

#include "indexer/store/result_type.h"
#include "platform/libclang/clang_text.h"

namespace optrace {
namespace {

std::string without_const(const std::string& name) {
  constexpr std::string_view kConst = "const ";
  return name.starts_with(kConst) ? name.substr(kConst.size()) : name;
}

CXChildVisitResult visit_enumerator(CXCursor cursor, CXCursor /*parent*/, CXClientData type) {
  if (clang_getCursorKind(cursor) == CXCursor_EnumConstantDecl)
    static_cast<ResultType*>(type)->enumerators.push_back(
        {take(clang_getCursorSpelling(cursor)), clang_getEnumConstantDeclValue(cursor)});
  return CXChildVisit_Continue;
}

/// Returns the form of a fundamental type; nothing for floating point and the like.
std::optional<ResultForm> form_of(CXTypeKind kind) {
  switch (kind) {
    case CXType_Bool:
      return ResultForm::boolean;
    case CXType_Char_S:
    case CXType_SChar:
    case CXType_Short:
    case CXType_Int:
    case CXType_Long:
    case CXType_LongLong:
      return ResultForm::signed_integer;
    case CXType_Char_U:
    case CXType_UChar:
    case CXType_UShort:
    case CXType_UInt:
    case CXType_ULong:
    case CXType_ULongLong:
      return ResultForm::unsigned_integer;
    case CXType_Pointer:
      return ResultForm::pointer;
    default:
      return std::nullopt;
  }
}

std::optional<ResultType> scalar_type(CXType written) {
  const CXType type = clang_getCanonicalType(written);
  const bool is_enumeration = type.kind == CXType_Enum;
  const CXCursor declaration = clang_getTypeDeclaration(type);
  const CXTypeKind kind =
      is_enumeration ? clang_getCanonicalType(clang_getEnumDeclIntegerType(declaration)).kind
                     : type.kind;
  const auto form = form_of(kind);
  if (!form) return std::nullopt;
  const long long size = clang_Type_getSizeOf(type);
  if (size < 1 || size > 8) return std::nullopt;
  ResultType found{.form = *form,
                   .size = static_cast<std::uint32_t>(size),
                   .name = *form == ResultForm::pointer
                               ? std::string(kPointerType)
                               : without_const(take(clang_getTypeSpelling(type))),
                   .enumerators = {},
                   .value_form = *form};
  if (is_enumeration) {
    found.form = found.value_form = *form == ResultForm::signed_integer
                                        ? ResultForm::signed_enumeration
                                        : ResultForm::unsigned_enumeration;
    clang_visitChildren(declaration, &visit_enumerator, &found);
  }
  return found;
}

/// Returns the optional's type if the whole of it is returned in rax.
std::optional<ResultType> optional_type(CXType written) {
  constexpr unsigned kMaxValueSize = 4;
  const CXType type = clang_getCanonicalType(written);
  if (type.kind != CXType_Record ||
      !without_const(take(clang_getTypeSpelling(type))).starts_with("std::optional<"))
    return std::nullopt;
  auto value = scalar_type(clang_Type_getTemplateArgumentAsType(type, 0));
  if (!value || value->form == ResultForm::pointer || value->size > kMaxValueSize)
    return std::nullopt;
  value->form = ResultForm::optional;
  value->name = "std::optional<" + value->name + ">";
  return value;
}

}  // namespace

std::string result_type_text(CXType type) {
  auto found = scalar_type(type);
  if (!found) found = optional_type(type);
  // A name that holds a separator, such as that of a lambda's type, can't be stored.
  if (!found || found->name.find_first_of("|\t\n") != std::string::npos) return "";
  return text_of(*found);
}

}  // namespace optrace
