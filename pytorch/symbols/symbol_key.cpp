#include "pytorch/symbols/symbol_key.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

#include "platform/text/ascii_text.h"

namespace optrace {
namespace {

constexpr std::string_view kAnonymousNamespace = "_GLOBAL__N_1";
constexpr std::string_view kDeviceStub = "__device_stub__";
constexpr std::string_view kBaselineCapability = "DEFAULT";

// The namespaces for which ATen compiles a source file several times (Codegen.cmake).
// CPU_CAPABILITY is the macro for them, and the name itself where the build does not define it.
constexpr std::array<std::string_view, 6> kCapabilities = {"AVX2",    "AVX512", "VSX",
                                                           "ZVECTOR", "SVE256", "CPU_CAPABILITY"};

// Deeper than the nesting of any real name. Limits the stack use on hostile input.
constexpr int kMaxDepth = 256;

// Operator codes by the number of operand expressions after them. Folder::expression handles those
// with another structure.
constexpr std::string_view kUnaryOperators = " ps ng ad de co nt sz az nx te sp tw pp mm dl da ";
constexpr std::string_view kBinaryOperators =
    " pl mi ml dv rm an or eo aS pL mI mL dV rM aN oR eO ls rs lS rS eq ne lt gt le ge ss aa oo cm"
    " pm pt ix ds ";

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

bool contains(std::string_view set, char c) {
  return c != '\0' && set.find(c) != std::string_view::npos;
}

bool lists(std::string_view operators, std::string_view code) {
  for (std::size_t at = 1; at + 2 < operators.size(); at += 3) {
    if (operators.substr(at, 2) == code) {
      return true;
    }
  }
  return false;
}

// A recursive-descent parser for the Itanium C++ ABI's <mangled-name> that copies its input in
// folded form. Folding preserves the number and order of components, so a substitution (`S_`,
// `S3_`) denotes the same component before and after. A parse function returns false if no rule
// matches.
class Folder {
 public:
  // clang ends a scope in an expression (`sr`) with E, GCC does not.
  enum class Scopes { closed, open };

  Folder(std::string_view text, Scopes scopes) : text_(text), scopes_(scopes) {
    out_.reserve(text.size());  // Folding makes few names longer.
  }

  std::optional<std::string> fold() {
    if (!take("_Z") || !encoding() || !(at_end() || contains(".@", peek()))) {
      return std::nullopt;
    }
    return std::move(out_);
  }

  // Returns the outermost name's components without template arguments. Returns nothing for names
  // within functions and names that start with a substitution (only abbreviations of std classes
  // do).
  std::optional<std::string> components() {
    if (!take("_Z")) {
      return std::nullopt;
    }
    const bool nested = take('N');
    while (nested && take_one_of("VK")) {
    }
    nested&& take_one_of("RO");
    std::string found = take("St") ? "St" : "";
    do {
      if (contains("STMZG", peek()) || next_is("Dt") || next_is("DT")) {
        return std::nullopt;
      }
      if (peek() == 'L') {
        ++at_;
      }
      const std::size_t start = out_.size();
      const bool conversion = next_is("cv");
      if (!base_unqualified_name()) {
        return std::nullopt;
      }
      found += conversion ? "cv" : out_.substr(start);
      is_instance_ = is_instance_ || peek() == 'I';
      if (!abi_tags() || !optional_template_args()) {
        return std::nullopt;
      }
    } while (nested && !at_end() && peek() != 'E');
    return found;
  }

  // Returns true if components() read template arguments, so that the name is an instance's.
  bool is_instance() const { return is_instance_; }

  struct Lambda {
    std::string enclosing;
    std::string parameters;
    std::string number;
  };

  // Parses the name of a lambda's operator() in a function.
  std::optional<Lambda> lambda() {
    auto enclosing_symbol = enclosing();
    if (!enclosing_symbol || !take('E') || !take('N')) {
      return std::nullopt;
    }
    take('K');
    if (!take("Ul")) {
      return std::nullopt;
    }
    std::string parameters;
    while (!at_end() && peek() != 'E') {
      const std::size_t start = at_;
      if (!type()) {
        return std::nullopt;
      }
      const std::string_view read = text_.substr(start, at_ - start);
      parameters += read.size() == 1 ? read : ".";
    }
    take('E');
    const std::size_t start = at_;
    if (!take_index() || !next_is("cl")) {
      return std::nullopt;
    }
    const std::string_view index = text_.substr(start, at_ - start - 1);
    // `_` is the first lambda, `0_` the second.
    std::size_t number = 0;
    for (const char digit : index) {
      number = number * 10 + static_cast<std::size_t>(digit - '0');
    }
    return Lambda{std::move(*enclosing_symbol), parameters == "v" ? "" : parameters,
                  std::to_string(index.empty() ? 0 : number + 1)};
  }

  // Returns the innermost function that encloses a name.
  std::optional<std::string> enclosing() {
    if (!take("_Z") || !take('Z')) {
      return std::nullopt;
    }
    const std::size_t start = out_.size();
    if (!encoding() || peek() != 'E') {
      return std::nullopt;
    }
    return "_Z" + out_.substr(start);
  }

 private:
  class Level {
   public:
    explicit Level(int& depth) : depth_(depth) { ++depth_; }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    bool too_deep() const { return depth_ > kMaxDepth; }

   private:
    int& depth_;
  };

  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool next_is(std::string_view wanted) const { return text_.substr(at_).starts_with(wanted); }

  bool take(std::string_view wanted) {
    if (!next_is(wanted)) {
      return false;
    }
    out_ += wanted;
    at_ += wanted.size();
    return true;
  }
  bool take(char wanted) { return take(std::string_view(&wanted, 1)); }
  bool take_any() { return !at_end() && take(text_.substr(at_, 1)); }
  bool take_one_of(std::string_view set) { return contains(set, peek()) && take_any(); }
  bool take_digits() {
    const std::size_t start = at_;
    while (is_digit(peek())) {
      take_any();
    }
    return at_ > start;
  }
  bool take_number() {
    take('n');
    return take_digits();
  }
  // The rest of `T_`, `S3_`, `UlvE0_`: an optional number and an underscore.
  bool take_index() {
    while (is_digit(peek()) || (peek() >= 'A' && peek() <= 'Z')) {
      take_any();
    }
    return take('_');
  }

  using Reader = bool (Folder::*)();
  // Parses zero or more items with `reader`, and the E after them.
  bool until_end(Reader reader) {
    while (!at_end() && peek() != 'E') {
      if (!(this->*reader)()) {
        return false;
      }
    }
    return take('E');
  }

  bool encoding() {
    const Level level(depth_);
    if (level.too_deep()) {
      return false;
    }
    if (peek() == 'T' || (peek() == 'G' && contains("VRTA", peek(1)))) {
      return special_name();
    }
    if (!name()) {
      return false;
    }
    while (!at_end() && !contains("E.@", peek())) {
      if (!type()) {
        return false;
      }
    }
    return true;
  }

  bool special_name() {
    if (take("TV") || take("TT") || take("TI") || take("TS")) {
      return type();
    }
    if (take("Tc")) {
      return call_offset() && call_offset() && encoding();
    }
    if (take("TC")) {
      return type() && take_digits() && take('_') && type();
    }
    if (take("TW") || take("TH") || take("GV")) {
      return name();
    }
    if (take("GR")) {
      const bool is_named = name();
      take_index();  // GCC leaves it out.
      return is_named;
    }
    if (take("GTt") || take("GTn") || take("GA")) {
      return encoding();
    }
    return take('T') && call_offset() && encoding();
  }

  bool call_offset() {
    if (take('h')) {
      return take_number() && take('_');
    }
    return take('v') && take_number() && take('_') && take_number() && take('_');
  }

  bool name() {
    const Level level(depth_);
    if (level.too_deep()) {
      return false;
    }
    if (peek() == 'N') {
      return nested_name();
    }
    if (peek() == 'Z') {
      return local_name();
    }
    if (peek() == 'S' && peek(1) != 't') {
      return substitution() && template_args();
    }
    take("St");
    return unqualified_name() && optional_template_args();
  }

  bool nested_name() {
    if (!take('N')) {
      return false;
    }
    take('H');
    while (take_one_of("VK")) {
    }
    take_one_of("RO");
    bool any = false;
    while (!at_end() && peek() != 'E') {
      if (!component()) {
        return false;
      }
      any = true;
    }
    return any && take('E');
  }

  bool component() {
    switch (peek()) {
      case 'S':
        return take("St") || substitution();
      case 'T':
        return template_param();
      case 'I':
        return template_args();
      case 'M':
        return take_any();
      case 'D':
        return peek(1) == 't' || peek(1) == 'T' ? decltype_type() : unqualified_name();
      default:
        return unqualified_name();
    }
  }

  bool local_name() {
    if (!take('Z') || !encoding() || !take('E')) {
      return false;
    }
    if (take('s')) {
      return discriminator();
    }
    if (take('d')) {
      return take_index() && name();
    }
    return name() && discriminator();
  }

  // Parses an optional discriminator. Returns false only if one starts and is incomplete.
  bool discriminator() {
    if (take("__")) {
      return take_digits() && take('_');
    }
    return peek() != '_' || (take('_') && take_digits());
  }

  bool unqualified_name() {
    if (peek() == 'L' || (peek() == 'F' && is_digit(peek(1)))) {
      if (peek() == 'L') {
        ++at_;  // Internal linkage: GCC marks it here, clang in other places.
      } else {
        take_any();
      }
    }
    return base_unqualified_name() && abi_tags();
  }

  bool base_unqualified_name() {
    const char first = peek();
    if (is_digit(first)) {
      return source_name();
    }
    if (first == 'C') {
      return constructor();
    }
    if (first == 'D') {
      return take("DC") ? until_end(&Folder::source_name) : destructor();
    }
    if (first == 'U') {
      return unnamed_type();
    }
    return operator_name();
  }

  bool constructor() {
    if (next_is("CI")) {
      at_ += 2;
      return skip_variant("CI1") && type();
    }
    ++at_;
    return skip_variant("C1");
  }

  bool destructor() {
    ++at_;
    return skip_variant("D1");
  }

  bool skip_variant(std::string_view written) {
    if (!is_digit(peek())) {
      return false;
    }
    ++at_;
    out_ += written;
    return true;
  }

  bool unnamed_type() {
    if (take("Ut")) {
      return take_index();
    }
    if (!take("Ul")) {
      return false;
    }
    while (peek() == 'T' && contains("yntpk", peek(1))) {
      if (!template_param_declaration()) {
        return false;
      }
    }
    return until_end(&Folder::type) && take_index();
  }

  bool template_param_declaration() {
    if (take("Ty")) {
      return true;
    }
    if (take("Tn")) {
      return type();
    }
    if (take("Tk")) {
      return name();
    }
    if (take("Tt")) {
      return until_end(&Folder::template_param_declaration);
    }
    return take("Tp") && template_param_declaration();
  }

  bool abi_tags() {
    while (take('B')) {
      if (!source_name()) {
        return false;
      }
    }
    return true;
  }

  bool source_name() {
    std::size_t length = 0;
    while (is_digit(peek())) {
      length = length * 10 + static_cast<std::size_t>(peek() - '0');
      ++at_;
      if (length > text_.size()) {
        return false;
      }
    }
    if (length == 0 || length > text_.size() - at_) {
      return false;
    }
    std::string_view name = text_.substr(at_, length);
    at_ += length;
    // A capability is a namespace, so another name must follow.
    const bool is_namespace = !at_end() && !contains("EIB", peek());
    if (name.starts_with("_GLOBAL__N_") || name.starts_with("_GLOBAL_.N_") ||
        name.starts_with("_GLOBAL_$N_")) {
      name = kAnonymousNamespace;
    } else if (is_namespace &&
               std::find(kCapabilities.begin(), kCapabilities.end(), name) != kCapabilities.end()) {
      name = kBaselineCapability;
    } else if (name.starts_with(kDeviceStub) && name.size() > kDeviceStub.size()) {
      name.remove_prefix(kDeviceStub.size());
    }
    out_ += std::to_string(name.size());
    out_ += name;
    return true;
  }

  bool operator_name() {
    if (take("cv")) {
      return type();
    }
    if (take("li")) {
      return source_name();
    }
    if (peek() == 'v' && is_digit(peek(1))) {
      return take_any() && take_any() && source_name();
    }
    return is_lower(peek()) && contains("abcdefghijklmnopqrstuvwxyzLISVRAMOEN", peek(1)) &&
           take_any() && take_any();
  }

  bool substitution() {
    if (!take('S')) {
      return false;
    }
    if (take_one_of("tabsiod")) {
      return abi_tags();
    }
    return take_index();
  }

  bool template_param() {
    if (!take('T')) {
      return false;
    }
    if (take('L')) {
      return take_digits() && take('_') && take_index();
    }
    return take_index();
  }

  bool optional_template_args() { return peek() != 'I' || template_args(); }

  bool template_args() {
    const Level level(depth_);
    return !level.too_deep() && take('I') && until_end(&Folder::template_arg);
  }

  bool template_arg() {
    const Level level(depth_);
    if (level.too_deep()) {
      return false;
    }
    switch (peek()) {
      case 'X':
        return take_any() && expression() && take('E');
      case 'L':
        return literal();
      case 'J':
      case 'I':  // GCC's older spelling of a pack.
        return take_any() && until_end(&Folder::template_arg);
      case 'T':
        if (contains("yntpk", peek(1))) {
          return template_param_declaration() && template_arg();
        }
        return type();
      default:
        return type();
    }
  }

  bool type() {
    const Level level(depth_);
    if (level.too_deep()) {
      return false;
    }
    const char first = peek();
    if (is_digit(first) || first == 'N' || first == 'Z') {
      return name();
    }
    switch (first) {
      case 'r':
      case 'V':
      case 'K':
      case 'P':
      case 'R':
      case 'O':
      case 'C':
      case 'G':
        return take_any() && type();
      case 'U':
        if (is_digit(peek(1))) {
          return take_any() && source_name() && optional_template_args() && type();
        }
        return name();
      case 'u':
        return take_any() && source_name() && optional_template_args();
      case 'F':
        return function_type();
      case 'A':
        return array_type();
      case 'M':
        return take_any() && type() && type();
      case 'T':
        if (contains("sue", peek(1))) {
          return take_any() && take_any() && name();
        }
        return template_param() && optional_template_args();
      case 'S':
        if (peek(1) == 't') {
          return name();
        }
        return substitution() && optional_template_args();
      case 'D':
        return extended_type();
      default:
        return take_one_of("vwbcahstijlmxynofdegz");
    }
  }

  bool function_type() {
    if (!take('F')) {
      return false;
    }
    take('Y');
    while (!at_end() && peek() != 'E') {
      if (contains("RO", peek()) && peek(1) == 'E') {
        take_any();
      } else if (!type()) {
        return false;
      }
    }
    return take('E');
  }

  bool array_type() {
    if (!take('A')) {
      return false;
    }
    if (is_digit(peek())) {
      take_digits();
    } else if (peek() != '_' && !expression()) {
      return false;
    }
    return take('_') && type();
  }

  bool decltype_type() { return (take("Dt") || take("DT")) && expression() && take('E'); }

  bool extended_type() {
    switch (peek(1)) {
      case 't':
      case 'T':
        return decltype_type();
      case 'p':
        return take("Dp") && type();
      case 'o':
      case 'x':
        return take_any() && take_any() && type();
      case 'O':
        return take("DO") && expression() && take('E') && function_type();
      case 'w':
        return take("Dw") && until_end(&Folder::type) && function_type();
      case 'v':
        take("Dv");
        if (is_digit(peek())) {
          take_digits();
        } else if (!take('_') || !expression()) {
          return false;
        }
        return take('_') && (take('p') || type());
      case 'F':
        return take("DF") && take_digits() && take_one_of("_bx");
      case 'B':
      case 'U':
        return take_any() && take_any() && take_digits() && take('_');
      default:
        return contains("acdefhiusn", peek(1)) && take_any() && take_any();
    }
  }

  // <expr-primary>
  bool literal() {
    if (!take('L')) {
      return false;
    }
    if (take("_Z") || take('Z')) {
      return encoding() && take('E');
    }
    if (!type()) {
      return false;
    }
    while (is_digit(peek()) || contains("nabcdef_", peek())) {
      take_any();
    }
    return take('E');
  }

  bool simple_id() { return source_name() && abi_tags() && optional_template_args(); }

  bool base_unresolved_name() {
    if (take("on")) {
      return operator_name() && optional_template_args();
    }
    if (take("dn")) {
      return is_digit(peek()) ? simple_id() : type();
    }
    return is_digit(peek()) ? simple_id() : (operator_name() && optional_template_args());
  }

  bool unresolved_name() {
    take("gs");
    if (!take("sr")) {
      return base_unresolved_name();
    }
    if (take('N')) {
      if (!type()) {
        return false;
      }
      return until_end(&Folder::simple_id) && base_unresolved_name();
    }
    if (is_digit(peek()) && scopes_ == Scopes::closed) {
      return until_end(&Folder::simple_id) && base_unresolved_name();
    }
    return type() && base_unresolved_name();
  }

  bool braced_expression() {
    if (take("di")) {
      return source_name() && braced_expression();
    }
    if (take("dx")) {
      return expression() && braced_expression();
    }
    return expression();
  }

  bool expression() {
    const Level level(depth_);
    if (level.too_deep()) {
      return false;
    }
    const char first = peek();
    if (first == 'L') {
      return literal();
    }
    if (first == 'T') {
      return template_param();
    }
    if (is_digit(first)) {
      return unresolved_name();
    }
    const std::string_view code = text_.substr(at_, 2);
    if (code == "gs" || code == "sr" || code == "on" || code == "dn") {
      return code == "gs" && (text_.substr(at_ + 2).starts_with('n') ||
                              text_.substr(at_ + 2).starts_with('d'))
                 ? take("gs") && expression()
                 : unresolved_name();
    }
    if (code == "fp" || (code == "fL" && is_digit(peek(2)))) {
      return function_param();
    }
    if (first == 'f' && contains("lrLR", peek(1))) {
      return fold_expression();
    }
    if (code == "cl" || code == "il") {
      return take(code) && until_end(&Folder::braced_expression);
    }
    if (code == "tl") {
      return take(code) && type() && until_end(&Folder::braced_expression);
    }
    if (code == "cv") {
      return take(code) && type() && (take('_') ? until_end(&Folder::expression) : expression());
    }
    if (code == "nw" || code == "na") {
      return new_expression();
    }
    if (code == "dc" || code == "sc" || code == "cc" || code == "rc") {
      return take(code) && type() && expression();
    }
    if (code == "ti" || code == "st" || code == "at") {
      return take(code) && type();
    }
    if (code == "dt" || code == "pt") {
      return take(code) && expression() && unresolved_name();
    }
    if (code == "sZ") {
      return take(code) && (peek() == 'T' ? template_param() : function_param());
    }
    if (code == "sP") {
      return take(code) && until_end(&Folder::template_arg);
    }
    if (code == "qu") {
      return take(code) && expression() && expression() && expression();
    }
    if (code == "tr") {
      return take(code);
    }
    if (first == 'u') {
      return take_any() && source_name() && until_end(&Folder::template_arg);
    }
    if (lists(kUnaryOperators, code)) {
      take(code);
      if (code == "pp" || code == "mm") {
        take('_');
      }
      return expression();
    }
    return lists(kBinaryOperators, code) && take(code) && expression() && expression();
  }

  bool function_param() {
    if (take("fL")) {
      if (!take_digits() || !take('p')) {
        return false;
      }
    } else if (!take("fp")) {
      return false;
    }
    if (take('T')) {
      return true;
    }
    while (take_one_of("rVK")) {
    }
    return take_index();
  }

  bool fold_expression() {
    const bool both_sides = contains("LR", peek(1));
    take_any();
    take_any();
    const std::string_view code = text_.substr(at_, 2);
    return lists(kBinaryOperators, code) && take(code) && expression() &&
           (!both_sides || expression());
  }

  bool new_expression() {
    take_any();
    take_any();
    while (peek() != '_') {
      if (at_end() || !expression()) {
        return false;
      }
    }
    return take('_') && type() && (take("pi") ? until_end(&Folder::expression) : take('E'));
  }

  bool is_instance_ = false;
  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  int depth_ = 0;
  Scopes scopes_;
};

constexpr std::array kBothScopes = {Folder::Scopes::open, Folder::Scopes::closed};

struct Key {
  std::string text;
  bool of_template = false;  // The parameter types depend on the instance.
};

std::optional<Key> key_of_lambda(std::string_view mangled);

Key key_of_function(std::string_view mangled) {
  if (auto key = key_of_lambda(mangled)) {
    return *std::move(key);
  }
  for (const auto scopes : kBothScopes) {
    Folder folder(mangled, scopes);
    const auto components = folder.components();
    if (components && folder.is_instance()) {
      return {"_ZN" + *components + "E", true};
    }
  }
  return {canonical_symbol(mangled), false};
}

std::optional<Key> key_of_lambda(std::string_view mangled) {
  for (const auto scopes : kBothScopes) {
    if (const auto lambda = Folder(mangled, scopes).lambda()) {
      const Key enclosing = key_of_function(lambda->enclosing);
      std::string parameters = lambda->parameters;
      if (enclosing.of_template) {
        parameters.assign(parameters.size(), '.');
      }
      return Key{enclosing.text + "Ul" + parameters + '#' + lambda->number, enclosing.of_template};
    }
  }
  return std::nullopt;
}

}  // namespace

bool is_cpu_capability(std::string_view name) {
  return std::find(kCapabilities.begin(), kCapabilities.end(), name) != kCapabilities.end();
}

std::string_view baseline_capability() {
  return kBaselineCapability;
}

std::string canonical_symbol(std::string_view mangled) {
  if (mangled.starts_with("_Z")) {
    for (const auto scopes : kBothScopes) {
      if (auto folded = Folder(mangled, scopes).fold()) {
        return *std::move(folded);
      }
    }
  }
  return std::string(mangled);
}

namespace {

// Parses `_GLOBAL__N__21739cd4_20_layer_norm_kernel_cu_9c5ada8a`: a hash, the length of the file
// name and the file name.
std::string file_in_anonymous_namespace(std::string_view mangled) {
  constexpr std::string_view kStart = "_GLOBAL__N__";
  constexpr std::string_view kEnding = "_cu";
  const std::size_t start = mangled.find(kStart);
  if (start == std::string_view::npos) return {};
  std::string_view name = mangled.substr(start + kStart.size());
  name.remove_prefix(std::min(name.find('_'), name.size()));
  if (name.empty()) return {};
  name.remove_prefix(1);
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), length);
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  if (error != std::errc() || !name.starts_with('_') || length >= name.size()) return {};
  name = name.substr(1, length);
  if (!name.ends_with(kEnding) || name.size() == kEnding.size()) return {};
  return std::string(name.substr(0, name.size() - kEnding.size())) + ".cu";
}

// Parses `tmpxft_00009194_00000000-6_layer_norm_kernel.compute_90.cudafe1.cpp`.
std::string file_of_nvcc(std::string_view stt_file) {
  if (!stt_file.starts_with("tmpxft_") || !stt_file.ends_with(".cudafe1.cpp")) return {};
  const std::size_t number = stt_file.find('-');
  const std::size_t start = stt_file.find('_', std::min(number, stt_file.size()));
  const std::size_t end = std::min(stt_file.rfind(".compute_"), stt_file.rfind(".cudafe1.cpp"));
  if (start == std::string_view::npos || start + 1 >= end) return {};
  return std::string(stt_file.substr(start + 1, end - start - 1)) + ".cu";
}

}  // namespace

std::string source_file_of(std::string_view mangled, std::string_view stt_file) {
  if (std::string file = file_of_nvcc(stt_file); !file.empty()) return file;
  if (!stt_file.empty()) return std::string(stt_file);
  return file_in_anonymous_namespace(mangled);
}

std::optional<std::string> template_key(std::string_view mangled) {
  for (const auto scopes : kBothScopes) {
    if (const auto components = Folder(mangled, scopes).components()) {
      return "_ZN" + *components + "E";
    }
  }
  return std::nullopt;
}

std::string function_key(std::string_view mangled) {
  return key_of_function(mangled).text;
}

std::optional<std::string> lambda_key(std::string_view mangled) {
  auto key = key_of_lambda(mangled);
  return key ? std::optional(std::move(key->text)) : std::nullopt;
}

std::optional<std::string> enclosing_function(std::string_view mangled) {
  for (const auto scopes : kBothScopes) {
    if (auto encoding = Folder(mangled, scopes).enclosing()) {
      return encoding;
    }
  }
  return std::nullopt;
}

}  // namespace optrace
