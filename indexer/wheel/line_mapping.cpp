#include "indexer/wheel/line_mapping.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "indexer/store/result_type.h"
#include "indexer/wheel/anchor_alignment.h"
#include "pytorch/symbols/demangled.h"
#include "pytorch/symbols/symbol_key.h"

namespace optrace {
namespace {

/// Returns a function's name and parameters as C++, without the inline namespace of the new string
/// ABI; empty if the symbol can't be demangled.
std::string readable(const std::string& symbol) {
  std::string text = demangled(symbol);
  constexpr std::string_view kNewString =
      "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  constexpr std::string_view kOldString = "std::string";
  for (std::size_t at = 0; (at = text.find(kNewString, at)) != std::string::npos;
       at += kOldString.size())
    text.replace(at, kNewString.size(), kOldString);
  return text;
}

class Carrier {
 public:
  Carrier(const Index& base, const WheelCode& wheel,
          const std::function<bool(const std::string&)>& is_known)
      : base_(base.contents()),
        wheel_(wheel),
        is_known_(is_known),
        anchors_(wheel.places()),
        alignment_(base_.anchors, anchors_) {}

  IndexContents run() {
    std::erase_if(base_.functions,
                  [&](const auto& function) { return !is_carried(function.file); });
    std::erase_if(base_.registrations,
                  [&](const auto& registration) { return !is_carried(registration.file); });
    pair_symbols();
    IndexContents made;
    for (IndexContents::Function& function : base_.functions)
      made.functions.push_back(carried(std::move(function)));
    for (IndexContents::Registration& registration : base_.registrations) {
      const MappedLine at = alignment_.carry(registration.file, registration.line);
      registration.line = at.line;
      registration.approximate = at.approximate;
      registration.function = renamed(registration.function);
      if (registration.kind == RegistrationKind::stub)
        registration.name = renamed(registration.name);
      made.registrations.push_back(std::move(registration));
    }
    add_new_functions(made);
    return made;
  }

 private:
  bool is_carried(const std::string& file) const {
    return !is_known_(file) && !alignment_.is_gone(file);
  }

  bool is_in_wheel(const std::string& symbol) const { return wheel_.contains(symbol); }

  /// Finds the new symbols of functions whose parameters have changed or are spelled differently
  /// because of the string ABI.
  void pair_symbols() {
    std::unordered_map<std::string, std::vector<std::string>> missing;
    std::unordered_set<std::string> taken;
    for (const IndexContents::Function& function : base_.functions) {
      if (function.kind != DefinitionKind::function &&
          function.kind != DefinitionKind::device_kernel)
        continue;
      if (is_in_wheel(function.symbol)) {
        taken.insert(function.symbol);
      } else if (const auto names = template_key(function.symbol);
                 names && *names != function.symbol) {
        std::vector<std::string>& symbols = missing[*names];
        if (std::ranges::find(symbols, function.symbol) == symbols.end())
          symbols.push_back(function.symbol);
      }
    }
    for (auto& [names, symbols] : missing) {
      const std::vector<std::string>* const all = wheel_.named(names);
      if (all == nullptr) continue;
      std::vector<std::string> free;
      std::ranges::copy_if(*all, std::back_inserter(free),
                           [&](const std::string& symbol) { return !taken.contains(symbol); });
      pair(symbols, free);
    }
  }

  void pair(std::vector<std::string>& symbols, std::vector<std::string>& free) {
    for (const std::string& symbol : symbols) {
      const std::string text = readable(symbol);
      const auto same = std::ranges::find_if(
          free, [&](const std::string& other) { return !text.empty() && readable(other) == text; });
      if (same == free.end()) continue;
      new_symbols_.emplace(symbol, *same);
      free.erase(same);
    }
    std::erase_if(symbols,
                  [&](const std::string& symbol) { return new_symbols_.contains(symbol); });
    if (symbols.size() == 1 && free.size() == 1)
      new_symbols_.emplace(symbols.front(), free.front());
  }

  const std::string& renamed(const std::string& symbol) const {
    const auto found = new_symbols_.find(symbol);
    return found == new_symbols_.end() ? symbol : found->second;
  }

  IndexContents::Function carried(IndexContents::Function function) {
    const bool is_function = function.kind == DefinitionKind::function;
    function.symbol = renamed(function.symbol);
    const MappedLine at = alignment_.carry(function.file, function.line);
    function.line = at.line;
    function.approximate = at.approximate;
    // Nothing in the wheel proves that such a function still exists.
    if (is_function && !function.approximate && !is_in_wheel(function.symbol))
      function.approximate = LineInterval{};
    defined_.insert(function.symbol);
    for (IndexContents::Call& call : function.calls) {
      const MappedLine there = alignment_.carry(function.file, call.line);
      call.line = there.line;
      call.approximate = there.approximate;
      call.callee = renamed(call.callee);
    }
    return function;
  }

  void add_new_functions(IndexContents& made) const {
    for (const AnchoredFunction& function : wheel_.anchored()) {
      if (defined_.contains(function.symbol) || is_known_(function.file)) continue;
      const auto own =
          std::ranges::lower_bound(anchors_, IndexedAnchor{function.file, function.first_line, 0});
      const bool has_previous = own != anchors_.begin() && std::prev(own)->file == function.file;
      IndexContents::Function added;
      added.symbol = function.symbol;
      added.file = function.file;
      added.line = function.first_line;
      added.approximate =
          LineInterval{has_previous ? std::prev(own)->line + 1 : 1, function.first_line};
      if (added.approximate->first > added.approximate->last) added.approximate->first = 1;
      made.functions.push_back(std::move(added));
    }
  }

  IndexContents base_;
  const WheelCode& wheel_;
  const std::function<bool(const std::string&)>& is_known_;
  std::vector<IndexedAnchor> anchors_;  // Of the wheel.
  AnchorAlignment alignment_;
  std::unordered_map<std::string, std::string> new_symbols_;
  std::unordered_set<std::string> defined_;
};

/// Returns the enumeration of a type: `E` for `E` and for `std::optional<E>`.
std::string_view enumeration_of(const ResultType& type) {
  std::string_view name = type.name;
  constexpr std::string_view kOptional = "std::optional<";
  if (type.form == ResultForm::optional && name.starts_with(kOptional) && name.ends_with('>')) {
    name.remove_prefix(kOptional.size());
    name.remove_suffix(1);
  }
  return name;
}

}  // namespace

void fit_enumerators(IndexContents& carried, const std::vector<IndexContents::Function>& of_wheel) {
  std::unordered_map<std::string, ResultType> known;
  for (const IndexContents::Function& type : of_wheel)
    if (type.kind == DefinitionKind::enumeration)
      if (auto read = parse_result_type(type.result)) known.emplace(read->name, std::move(*read));
  for (IndexContents::Function& function : carried.functions) {
    auto type = parse_result_type(function.result);
    if (!type || type->enumerators.empty()) continue;
    const auto enumeration = known.find(std::string(enumeration_of(*type)));
    const bool is_same = enumeration != known.end() && enumeration->second.size == type->size;
    type->enumerators = is_same ? enumeration->second.enumerators : std::vector<Enumerator>();
    function.result = text_of(*type);
  }
}

IndexContents carry_code(const Index& base, const WheelCode& wheel,
                         const std::function<bool(const std::string& file)>& is_known) {
  return Carrier(base, wheel, is_known).run();
}

}  // namespace optrace
