#include "indexer/frontend/unit_extractor.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "indexer/frontend/cursor_keys.h"
#include "indexer/frontend/cursors.h"
#include "indexer/frontend/result_type_reader.h"
#include "indexer/frontend/worker_protocol.h"
#include "platform/libclang/clang_text.h"
#include "pytorch/symbols/symbol_key.h"

namespace optrace {
namespace {

std::uint64_t hash_of(const IndexContents::Function& function) {
  std::string text;
  append_function(function, text);
  return std::hash<std::string>()(text);
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
  if (!holds_functions(kind)) return CXChildVisit_Continue;
  // A macro can reopen a namespace, so its location may be elsewhere. Any other declaration outside
  // the tree contains nothing of it.
  if (extractor->place_of(clang_getCursorLocation(cursor)).file == nullptr)
    return CXChildVisit_Continue;
  if (is_class(kind)) extractor->take_type(cursor, DefinitionKind::type);
  return CXChildVisit_Recurse;
}

void UnitExtractor::take_type(CXCursor cursor, DefinitionKind kind) {
  if (clang_isCursorDefinition(cursor) == 0) return;
  const Place place = place_of(clang_getCursorLocation(cursor));
  if (place.file == nullptr) return;
  std::string key = type_key_of(cursor);
  if (!key.empty() && !is_left_out(key)) {
    std::string result =
        kind == DefinitionKind::enumeration ? result_type_text(clang_getCursorType(cursor)) : "";
    function_sink_(
        {std::move(key), place.file->name, place.line, {}, kind, std::nullopt, std::move(result)});
  }
}

UnitExtractor::Place UnitExtractor::place_of(CXSourceLocation location) {
  CXFile file = nullptr;
  unsigned line = 0;
  // The position in the file: for a macro's argument where it is spelled, for a macro's body where
  // the macro is used.
  clang_getFileLocation(location, &file, &line, nullptr, nullptr);
  if (file == nullptr) return {};
  const auto [known, is_new] = files_.try_emplace(file);
  if (is_new) {
    const std::string path = take(clang_getFileName(file));
    auto name = paths_(path);
    known->second = {name.has_value(), std::move(name).value_or(""), path != main_file_};
  }
  if (!known->second.is_indexed) return {};
  return {&known->second, line};
}

void UnitExtractor::take_function(CXCursor cursor) {
  if (clang_isCursorDefinition(cursor) == 0 || clang_CXXMethod_isDefaulted(cursor) != 0) return;
  const Place place = place_of(clang_getCursorLocation(cursor));
  if (place.file == nullptr) return;
  std::string key = key_of(cursor);
  if (key.empty()) return;
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

void UnitExtractor::take_lambda(CXCursor cursor, CXCursor parent) {
  const Place place = place_of(clang_getCursorLocation(cursor));
  if (place.file == nullptr || place.file->name != open_.back().function.file) {
    clang_visitChildren(cursor, &UnitExtractor::visit_body, this);
    return;
  }
  const Signature signature = signature_of(cursor, open_.back().is_template);
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
  std::ranges::sort(calls);
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  // Different functions of headers are mistaken for each other with a probability of about 2^-64.
  if (place.file->is_header && !seen_.insert(hash_of(function)).second) return;
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
  if (kind == CXCursor_DeclRefExpr) extractor->take_reference(cursor);
  return CXChildVisit_Recurse;
}

}  // namespace optrace
