#include "indexer/frontend/cursors.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "platform/libclang/clang_text.h"
#include "pytorch/functions/vendor_libraries.h"

namespace optrace {
namespace {

bool is_template(CXCursor cursor) {
  const CXCursorKind kind = clang_getCursorKind(cursor);
  return kind == CXCursor_FunctionTemplate || kind == CXCursor_ClassTemplate ||
         kind == CXCursor_ClassTemplatePartialSpecialization ||
         clang_Cursor_isNull(clang_getSpecializedCursorTemplate(cursor)) == 0;
}

CXChildVisitResult visit_first(CXCursor cursor, CXCursor /*parent*/, CXClientData first) {
  *static_cast<CXCursor*>(first) = cursor;
  return CXChildVisit_Break;
}

CXChildVisitResult visit_last(CXCursor cursor, CXCursor /*parent*/, CXClientData last) {
  *static_cast<CXCursor*>(last) = cursor;
  return CXChildVisit_Continue;
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

}  // namespace

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

bool is_class(CXCursorKind kind) {
  return kind == CXCursor_ClassDecl || kind == CXCursor_StructDecl ||
         kind == CXCursor_ClassTemplate;
}

bool is_explicit_specialization(CXTranslationUnit unit, CXCursor cursor) {
  for (CXCursor at = cursor; clang_isDeclaration(clang_getCursorKind(at)) != 0;
       at = clang_getCursorSemanticParent(at)) {
    if (!is_template(at)) continue;
    CXFile file = nullptr;
    unsigned start = 0;
    std::size_t size = 0;
    clang_getFileLocation(clang_getRangeStart(clang_getCursorExtent(at)), &file, nullptr, nullptr,
                          &start);
    const char* text = file == nullptr ? nullptr : clang_getFileContents(unit, file, &size);
    if (text == nullptr || start > size) return false;
    std::string_view rest(text + start, size - start);
    for (const std::string_view part : {"template", "<", ">"}) {
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n"), rest.size()));
      if (!rest.starts_with(part)) return false;
      rest.remove_prefix(part.size());
    }
    return true;
  }
  return false;
}

bool is_within_template(CXCursor cursor) {
  for (CXCursor at = cursor; clang_isDeclaration(clang_getCursorKind(at)) != 0;
       at = clang_getCursorSemanticParent(at)) {
    if (is_template(at)) return true;
  }
  return false;
}

bool is_device_kernel(CXCursor function) {
  const CXCursor pattern = clang_getSpecializedCursorTemplate(function);
  bool is_global = false;
  clang_visitChildren(clang_Cursor_isNull(pattern) != 0 ? function : pattern, &visit_attribute,
                      &is_global);
  return is_global;
}

bool is_launcher(CXCursor function) {
  return launches_kernel(take(clang_getCursorSpelling(function)));
}

CXCursor first_child(CXCursor cursor) {
  CXCursor first = clang_getNullCursor();
  clang_visitChildren(cursor, &visit_first, &first);
  return first;
}

CXCursor last_child(CXCursor cursor) {
  CXCursor last = clang_getNullCursor();
  clang_visitChildren(cursor, &visit_last, &last);
  return last;
}

CXCursor called_expression(CXCursor call) {
  CXCursor called = first_child(call);
  while (clang_getCursorKind(called) == CXCursor_ParenExpr ||
         clang_getCursorKind(called) == CXCursor_UnexposedExpr) {
    called = first_child(called);
  }
  return called;
}

CXSourceLocation end_of_member(CXCursor member) {
  return clang_getRangeEnd(clang_getCursorExtent(member));
}

CXCursor class_of_object(CXCursor member) {
  CXType type = clang_getCursorType(first_child(member));
  while (type.kind == CXType_Pointer || type.kind == CXType_LValueReference ||
         type.kind == CXType_RValueReference) {
    type = clang_getPointeeType(type);
  }
  return clang_getTypeDeclaration(type);
}

}  // namespace optrace
