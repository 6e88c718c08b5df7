// The part of UnitExtractor that finds call sites.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "indexer/frontend/cursor_keys.h"
#include "indexer/frontend/cursors.h"
#include "indexer/frontend/unit_extractor.h"
#include "platform/libclang/clang_text.h"
#include "platform/text/ascii_text.h"

namespace optrace {
namespace {

struct NamedMember {
  std::string_view name;
  CXCursor found;
};

CXChildVisitResult visit_member(CXCursor cursor, CXCursor /*parent*/, CXClientData searched) {
  auto* member = static_cast<NamedMember*>(searched);
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
  while (start > 0 && is_word_character(text[start - 1])) --start;
  return text.substr(start);
}

}  // namespace

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
  if (!is_function(clang_getCursorKind(named))) return;
  const Callee& callee = callee_of(named);
  CallKind kind = CallKind::reference;
  if (!open_calls_.empty()) {
    const OpenCall& call = open_calls_.back();
    if (clang_equalCursors(expression, call.callee) != 0 ||
        clang_equalCursors(named, call.referenced) != 0) {
      return;
    }
    if (callee.is_device_kernel && is_launcher(call.referenced)) kind = CallKind::launch;
  }
  add_call(callee.key, clang_getCursorLocation(expression), kind);
}

// In a template, `auto kernel = &flash_fwd_kernel<T, true>;` is not resolved yet, so all overloads
// of that name are candidates. Only device kernels need this, since they are launched through the
// variable.
void UnitExtractor::take_kernel_reference(CXCursor expression, CXCursor overloads) {
  if (!open_calls_.empty() && clang_equalCursors(expression, open_calls_.back().callee) != 0)
    return;  // It is called: take_call handles it.
  for (unsigned at = 0; at < clang_getNumOverloadedDecls(overloads); ++at) {
    const CXCursor overload = clang_getOverloadedDecl(overloads, at);
    if (!is_function(clang_getCursorKind(overload))) continue;
    if (const Callee& callee = callee_of(overload); callee.is_device_kernel)
      add_call(callee.key, clang_getCursorLocation(expression), CallKind::reference);
  }
}

void UnitExtractor::take_call(CXCursor call, const OpenCall& open) {
  const bool is_member = clang_getCursorKind(open.callee) == CXCursor_MemberRefExpr;
  const CXSourceLocation location = clang_getCursorLocation(is_member ? open.callee : call);
  if (is_function(clang_getCursorKind(open.referenced)))
    take_resolved_call(call, open, location);
  else
    take_unresolved_call(open.callee, is_member ? end_of_member(open.callee) : location);
}

void UnitExtractor::take_resolved_call(CXCursor call, const OpenCall& open,
                                       CXSourceLocation location) {
  const Callee& callee = callee_of(open.referenced);
  add_call(callee, location);
  if (callee.key == kCallOfStub) {
    add_call(stub_of(clang_getCursorType(clang_getCursorReferenced(open.callee))), location,
             CallKind::stub);
  }
  if (library_ &&
      take(clang_getCursorSpelling(clang_getCursorSemanticParent(open.referenced))) == "Library") {
    const std::string member = take(clang_getCursorSpelling(open.referenced));
    if (member == "def" || member == "impl" || member == "fallback")
      take_library_call(*library_, call, member, location);
  }
}

// In a template, a call may not be resolved yet.
void UnitExtractor::take_unresolved_call(CXCursor called, CXSourceLocation location) {
  const CXCursorKind kind = clang_getCursorKind(called);
  if (kind == CXCursor_LambdaExpr) {
    add_call(lambda_key_of(clang_getTypeDeclaration(clang_getCursorType(called))), location);
    return;
  }
  if (kind != CXCursor_DeclRefExpr && kind != CXCursor_MemberRefExpr) return;
  const CXCursor named = clang_getCursorReferenced(called);
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
        if (is_function(clang_getCursorKind(overload))) add_call(callee_of(overload), location);
      }
      return;
    default:
      if (kind == CXCursor_MemberRefExpr && clang_Cursor_isNull(named) != 0) {
        if (const Callee* member = dependent_member(called)) add_call(*member, location);
      }
  }
}

void UnitExtractor::add_call(const Callee& callee, CXSourceLocation location) {
  add_call(callee.key, location, callee.is_device_kernel ? CallKind::launch : CallKind::call);
}

void UnitExtractor::add_call(const std::string& callee, CXSourceLocation location, CallKind kind) {
  if (callee.empty()) return;
  const Place place = place_of(location);
  if (place.file == nullptr) return;
  for (auto open = open_.rbegin(); open != open_.rend(); ++open) {
    if (place.file->name == open->function.file)
      open->function.calls.push_back({callee, place.line, kind});
    if (!open->is_lambda) break;
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
    if (!is_left_out(key)) callee = {std::move(key), is_device_kernel(referenced)};
  }
  return callee;
}

std::string UnitExtractor::lambda_key_of(CXCursor declaration) const {
  const auto known = lambda_keys_.find(declaration.data[0]);
  return known == lambda_keys_.end() ? "" : known->second;
}

const UnitExtractor::Callee* UnitExtractor::dependent_member(CXCursor member) {
  const CXCursor of = class_of_object(member);
  if (clang_getCursorKind(of) != CXCursor_ClassTemplate) return nullptr;
  // libclang does not provide the name of an unresolved member, so it is read from the source.
  CXFile file = nullptr;
  unsigned end = 0;
  clang_getFileLocation(end_of_member(member), &file, nullptr, nullptr, &end);
  std::size_t size = 0;
  const char* text = file == nullptr ? nullptr : clang_getFileContents(unit_, file, &size);
  if (text == nullptr || end > size) return nullptr;
  NamedMember searched{last_name({text, end}), clang_getNullCursor()};
  if (searched.name.empty()) return nullptr;
  clang_visitChildren(of, &visit_member, &searched);
  return clang_Cursor_isNull(searched.found) != 0 ? nullptr : &callee_of(searched.found);
}

}  // namespace optrace
