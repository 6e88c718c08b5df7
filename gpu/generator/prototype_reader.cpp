#include "gpu/generator/prototype_reader.h"

#include <memory>
#include <set>
#include <type_traits>

#include <clang-c/Index.h>

#include "platform/error.h"
#include "platform/libclang/clang_text.h"

namespace optrace {
namespace {

using ClangIndex = std::unique_ptr<std::remove_pointer_t<CXIndex>, decltype(&clang_disposeIndex)>;
using ClangUnit = std::unique_ptr<std::remove_pointer_t<CXTranslationUnit>,
                                  decltype(&clang_disposeTranslationUnit)>;

ValueKind kind_of(CXType type) {
  switch (clang_getCanonicalType(type).kind) {
    case CXType_Bool:
      return ValueKind::boolean;
    case CXType_Char_U:
    case CXType_UChar:
    case CXType_UShort:
    case CXType_UInt:
    case CXType_ULong:
    case CXType_ULongLong:
    case CXType_Char_S:
    case CXType_SChar:
    case CXType_Short:
    case CXType_Int:
    case CXType_Long:
    case CXType_LongLong:
      return ValueKind::integer;
    case CXType_Float:
    case CXType_Double:
      return ValueKind::real;
    case CXType_Enum:
      return ValueKind::enumeration;
    case CXType_Pointer:
      return ValueKind::pointer;
    default:
      return ValueKind::other;
  }
}

template <typename Visit>
void for_each_child(CXCursor parent, Visit visit) {
  clang_visitChildren(
      parent,
      [](CXCursor cursor, CXCursor, CXClientData data) {
        (*static_cast<Visit*>(data))(cursor);
        return CXChildVisit_Continue;
      },
      &visit);
}

Parameter read_parameter(CXType type, std::string name) {
  Parameter parameter{
      .name = std::move(name), .type = take(clang_getTypeSpelling(type)), .kind = kind_of(type)};
  if (parameter.kind == ValueKind::pointer) {
    const CXType pointee = clang_getPointeeType(clang_getCanonicalType(type));
    parameter.pointee = take(clang_getTypeSpelling(pointee));
    parameter.pointee_kind = kind_of(pointee);
    parameter.pointee_constant = clang_isConstQualifiedType(pointee) != 0;
    const bool is_function = clang_getResultType(pointee).kind != CXType_Invalid;
    parameter.pointee_complete =
        pointee.kind != CXType_Void && !is_function && clang_Type_getSizeOf(pointee) > 0;
  }
  if (parameter.kind == ValueKind::enumeration) {
    for_each_child(clang_getTypeDeclaration(clang_getCanonicalType(type)), [&](CXCursor cursor) {
      if (clang_getCursorKind(cursor) == CXCursor_EnumConstantDecl)
        parameter.enumerators.emplace_back(clang_getEnumConstantDeclValue(cursor),
                                           take(clang_getCursorSpelling(cursor)));
    });
  }
  return parameter;
}

bool is_c_function(CXCursor cursor) {
  return clang_getCursorKind(cursor) == CXCursor_FunctionDecl &&
         clang_isCursorDefinition(cursor) == 0 &&
         clang_getCursorLinkage(cursor) == CXLinkage_External &&
         clang_isFunctionTypeVariadic(clang_getCursorType(cursor)) == 0 &&
         take(clang_Cursor_getMangling(cursor)) == take(clang_getCursorSpelling(cursor));
}

Prototype read_prototype(CXCursor cursor) {
  const CXType type = clang_getCursorType(cursor);
  Prototype prototype{.name = take(clang_getCursorSpelling(cursor)),
                      .result = take(clang_getTypeSpelling(clang_getResultType(type))),
                      .parameters = {}};
  for (int i = 0; i < clang_getNumArgTypes(type); ++i) {
    const CXCursor argument = clang_Cursor_getArgument(cursor, static_cast<unsigned>(i));
    prototype.parameters.push_back(read_parameter(clang_getArgType(type, static_cast<unsigned>(i)),
                                                  take(clang_getCursorSpelling(argument))));
  }
  return prototype;
}

}  // namespace

std::vector<Prototype> read_prototypes(const std::string& source,
                                       const std::vector<std::string>& arguments,
                                       const std::function<bool(std::string_view)>& accepts) {
  const ClangIndex index(clang_createIndex(0, 0), &clang_disposeIndex);
  constexpr const char* kName = "prototypes.cpp";
  CXUnsavedFile file{kName, source.c_str(), source.size()};
  std::vector<const char*> texts{"-x", "c++", "-std=c++17"};
  for (const std::string& argument : arguments) texts.push_back(argument.c_str());
  CXTranslationUnit parsed = nullptr;
  clang_parseTranslationUnit2(index.get(), kName, texts.data(), static_cast<int>(texts.size()),
                              &file, 1,
                              CXTranslationUnit_SkipFunctionBodies | CXTranslationUnit_KeepGoing |
                                  CXTranslationUnit_Incomplete,
                              &parsed);
  const ClangUnit unit(parsed, &clang_disposeTranslationUnit);
  if (parsed == nullptr) {
    throw Error(ExitStatus::failed, "libclang cannot parse CUDA's headers",
                "Reinstall the nvidia wheels.");
  }
  std::vector<Prototype> prototypes;
  std::set<std::string> seen;
  const auto visit = [&](const auto& self, CXCursor parent) -> void {
    for_each_child(parent, [&](CXCursor cursor) {
      const CXCursorKind kind = clang_getCursorKind(cursor);
      if (kind == CXCursor_LinkageSpec || kind == CXCursor_UnexposedDecl) {
        self(self, cursor);
      } else if (is_c_function(cursor) && accepts(take(clang_getCursorSpelling(cursor))) &&
                 seen.insert(take(clang_getCursorSpelling(cursor))).second) {
        prototypes.push_back(read_prototype(cursor));
      }
    });
  };
  visit(visit, clang_getTranslationUnitCursor(parsed));
  return prototypes;
}

}  // namespace optrace
