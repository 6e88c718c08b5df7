#include "indexer/unit_extractor.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "indexer/symbol_key.h"
#include "indexer/worker_protocol.h"

namespace optrace {
namespace {

std::string take(CXString text) {
  const char* characters = clang_getCString(text);
  std::string copy = characters == nullptr ? "" : characters;
  clang_disposeString(text);
  return copy;
}

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

// `template <> void f<float>() {}`, or something within one; no instance that the compiler made.
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

// Operands of an operator function, the object included.
int operand_count(CXCursor function) {
  int count = std::max(clang_Cursor_getNumArguments(function), 0);
  const CXCursorKind parent = clang_getCursorKind(clang_getCursorSemanticParent(function));
  if (parent != CXCursor_Namespace && parent != CXCursor_TranslationUnit &&
      clang_CXXMethod_isStatic(function) == 0) {
    ++count;
  }
  return count;
}

// One <unqualified-name> of a template_key; empty where the declaration has none.
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

// The same key that symbol_key's template_key gives for the symbol of an instance.
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
      return "";  // In a function.
    }
    const std::string part = component(at);
    if (part.empty()) {
      return "";
    }
    key.insert(0, part == "3std" && kind == CXCursor_Namespace ? "St" : part);
  }
  // CPU capabilities and the like are folded as in a symbol.
  return template_key("_ZN" + key + "Ev").value_or("");
}

std::string key_of(CXCursor function) {
  if (is_within_template(function)) {
    return template_key_of(function);
  }
  return canonical_symbol(take(clang_Cursor_getMangling(function)));
}

// Calls that no report shows: C++'s own library, and what stand_ins/ makes up.
bool is_left_out(std::string_view symbol) {
  return symbol.find("stand_in_") != std::string_view::npos || symbol.starts_with("_ZNSt") ||
         symbol.starts_with("_ZNKSt") || symbol.starts_with("_ZSt") ||
         symbol.starts_with("_ZN9__gnu_cxx") || symbol.starts_with("_ZNK9__gnu_cxx") ||
         symbol.starts_with("_ZNSa") || symbol.starts_with("_ZNSs") ||
         symbol.starts_with("_ZNKSs") || symbol.starts_with("__builtin_");
}

// A lambda's parameters: a lambda_key's letters, and the types to tell signatures apart.
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

// What stands before a call's parenthesis.
CXCursor called_expression(CXCursor call) {
  CXCursor called = first_child(call);
  while (clang_getCursorKind(called) == CXCursor_ParenExpr ||
         clang_getCursorKind(called) == CXCursor_UnexposedExpr) {
    called = first_child(called);
  }
  return called;
}

// Where the name in a member expression ends: a call starts where its object does, and in a chain
// over several lines only its own name tells its line.
CXSourceLocation end_of_member(CXCursor member) {
  return clang_getRangeEnd(clang_getCursorExtent(member));
}

// The class, or the class template, of the object of a member expression.
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

// The one name that ends a piece of source, without template arguments behind it.
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

}  // namespace

void UnitExtractor::extract(CXTranslationUnit unit) {
  files_.clear();
  callee_keys_.clear();
  lambda_keys_.clear();
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
  if (!holds_functions(kind)) {
    return CXChildVisit_Continue;
  }
  // A namespace can be reopened from a macro; anything else outside the tree holds nothing of it.
  if (extractor->place_of(clang_getCursorLocation(cursor)).file == nullptr) {
    return CXChildVisit_Continue;
  }
  return CXChildVisit_Recurse;
}

UnitExtractor::Place UnitExtractor::place_of(CXSourceLocation location) {
  CXFile file = nullptr;
  unsigned line = 0;
  // The position in the file: of a macro's argument where it is spelled, of a macro's body where
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
  Open open{{std::move(key), place.file->name, place.line, {}}, "", false, in_template, {}};
  if (in_template && is_explicit_specialization(unit_, cursor)) {
    // Found by its own symbol as well as among the template's.
    open.own_symbol = canonical_symbol(take(clang_Cursor_getMangling(cursor)));
  }
  walk(cursor, place, std::move(open));
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
    lambda_keys_[parent.data[0]] = key;  // In a template, an `auto` has no type to know it by.
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
  // Two headers' functions are taken for one with a chance of 2^-64 or so.
  if (place.file->is_header && !seen_in_headers_.insert(hash_of(function)).second) {
    return;
  }
  if (!own_symbol.empty() && own_symbol != function.symbol) {
    IndexContents::Function specialization = function;
    specialization.symbol = own_symbol;
    sink_(std::move(specialization));
  }
  sink_(std::move(function));
}

CXChildVisitResult UnitExtractor::visit_body(CXCursor cursor, CXCursor parent, CXClientData self) {
  auto* extractor = static_cast<UnitExtractor*>(self);
  const CXCursorKind kind = clang_getCursorKind(cursor);
  if (is_function(kind)) {  // Of a class within the function.
    extractor->take_function(cursor);
    return CXChildVisit_Continue;
  }
  if (kind == CXCursor_LambdaExpr) {
    extractor->take_lambda(cursor, parent);
    return CXChildVisit_Continue;
  }
  if (kind == CXCursor_CallExpr) {
    // What is in the call first: it may be the lambda that is called.
    clang_visitChildren(cursor, &UnitExtractor::visit_body, self);
    extractor->take_call(cursor);
    return CXChildVisit_Continue;
  }
  return CXChildVisit_Recurse;
}

void UnitExtractor::take_call(CXCursor call) {
  const CXCursor referenced = clang_getCursorReferenced(call);
  const CXCursor called = called_expression(call);
  const bool is_member = clang_getCursorKind(called) == CXCursor_MemberRefExpr;
  CXSourceLocation location = clang_getCursorLocation(is_member ? called : call);
  if (is_function(clang_getCursorKind(referenced))) {
    add_call(callee_key(referenced), location);
    return;
  }
  // In a template, a call may be bound to nothing yet.
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
      add_call(lambda_key_of(named), location);
      return;
    case CXCursor_OverloadedDeclRef:
      for (unsigned at = 0; at < clang_getNumOverloadedDecls(named); ++at) {
        const CXCursor overload = clang_getOverloadedDecl(named, at);
        if (is_function(clang_getCursorKind(overload))) {
          add_call(callee_key(overload), location);
        }
      }
      return;
    default:
      if (is_member && clang_Cursor_isNull(named) != 0) {
        add_call(dependent_member_key(called), location);
      }
  }
}

void UnitExtractor::add_call(const std::string& callee, CXSourceLocation location) {
  if (callee.empty()) {
    return;
  }
  const Place place = place_of(location);
  if (place.file == nullptr) {
    return;
  }
  for (auto open = open_.rbegin(); open != open_.rend(); ++open) {
    if (place.file->name == open->function.file) {
      open->function.calls.push_back({callee, place.line});
    }
    if (!open->is_lambda) {
      break;
    }
  }
}

const std::string& UnitExtractor::callee_key(CXCursor referenced) {
  // A lambda's operator() is known by its class.
  const auto lambda = lambda_keys_.find(clang_getCursorSemanticParent(referenced).data[0]);
  if (lambda != lambda_keys_.end()) {
    return lambda->second;
  }
  // A declaration's address is what libclang keeps in data[0]; it is good while the unit lives.
  const auto [known, is_new] = callee_keys_.try_emplace(referenced.data[0]);
  if (is_new) {
    std::string key = key_of(referenced);
    if (!is_left_out(key)) {
      known->second = std::move(key);
    }
  }
  return known->second;
}

std::string UnitExtractor::lambda_key_of(CXCursor declaration) const {
  const auto known = lambda_keys_.find(declaration.data[0]);
  return known == lambda_keys_.end() ? "" : known->second;
}

std::string UnitExtractor::dependent_member_key(CXCursor member) {
  const CXCursor of = class_of_object(member);
  if (clang_getCursorKind(of) != CXCursor_ClassTemplate) {
    return "";
  }
  // libclang does not tell the name of a member that is not bound yet; the source does.
  CXFile file = nullptr;
  unsigned end = 0;
  clang_getFileLocation(end_of_member(member), &file, nullptr, nullptr, &end);
  std::size_t size = 0;
  const char* text = file == nullptr ? nullptr : clang_getFileContents(unit_, file, &size);
  if (text == nullptr || end > size) {
    return "";
  }
  NamedMember wanted{last_name({text, end}), clang_getNullCursor()};
  if (wanted.name.empty()) {
    return "";
  }
  clang_visitChildren(of, &visit_member, &wanted);
  return clang_Cursor_isNull(wanted.found) != 0 ? "" : callee_key(wanted.found);
}

}  // namespace optrace
