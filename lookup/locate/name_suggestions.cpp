#include "lookup/locate/name_suggestions.h"

#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include "lookup/locate/op_spelling.h"
#include "platform/text/joined.h"
#include "pytorch/names/op_name.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxSuggestions = 5;

}  // namespace

std::vector<std::string> NameSuggestions::suggest(const NameQuery& query) {
  if (query.components.empty()) return {};
  std::vector<std::string> found;
  if (query.components.size() > 1 && query.form == NameForm::dotted) found = siblings(query);
  if (found.empty() && query.form == NameForm::cpp) found = in_same_namespace(query);
  return found.empty() ? with_similar_word(query) : found;
}

// For a method or member of a known class or module, suggests others in the same place.
std::vector<std::string> NameSuggestions::siblings(const NameQuery& query) {
  std::vector<std::string> names;
  NameQuery parent = query;
  parent.text = query.text.substr(0, query.text.rfind('.'));
  for (const std::string& spelling : python_spellings(parent)) {
    const auto owner = python_.find_name(spelling);
    if (!owner) continue;
    const std::string prefix = std::string(owner->name) + ".";
    for (const PythonName& name : python_.all())
      if (name.name.starts_with(prefix) &&
          name.name.find('.', prefix.size()) == std::string_view::npos)
        names.emplace_back(name.name.substr(prefix.size()));
    if (!names.empty()) break;
  }
  std::vector<std::string> found = near_names(query.components.back(), names, kMaxSuggestions);
  for (std::string& name : found) name.insert(0, parent.text + ".");
  return found;
}

// Suggests names with another last word in the same namespaces.
std::vector<std::string> NameSuggestions::in_same_namespace(const NameQuery& query) {
  std::vector<std::string> found;
  std::vector<std::string> components = query.components;
  for (std::string& word : near_names(query.components.back(), words(), 4 * kMaxSuggestions)) {
    components.back() = std::move(word);
    if (std::string name = cpp_.name_ending_with(components); !name.empty())
      found.push_back(std::move(name));
    if (found.size() == kMaxSuggestions) break;
  }
  return found;
}

// Suggests names anywhere. Any component of a path may be misspelt; the last one is the most
// significant.
std::vector<std::string> NameSuggestions::with_similar_word(const NameQuery& query) {
  std::vector<std::string> found;
  std::set<std::string> seen;
  for (auto part = query.components.rbegin(); part != query.components.rend(); ++part) {
    if (found.size() == kMaxSuggestions) break;
    const bool last = part == query.components.rbegin();
    // The correct word in the wrong place is also a suggestion.
    for (const std::string& word : near_names(*part, words(), kMaxSuggestions)) {
      if (!last && word == *part) continue;
      const std::string& full = names_by_word().at(word);
      if (found.size() < kMaxSuggestions && seen.insert(full).second) found.push_back(full);
    }
  }
  return found;
}

// Maps each last word of a name to the best name that ends with it.
const std::map<std::string, std::string>& NameSuggestions::names_by_word() {
  if (names_by_word_) return *names_by_word_;
  std::map<std::string, std::string>& names = names_by_word_.emplace();
  const auto offer = [&](std::string_view word, std::string full) {
    if (word.empty()) return;
    std::string& kept = names[std::string(word)];
    if (kept.empty() || full.size() < kept.size()) kept = std::move(full);
  };
  for (const PythonName& name : python_.all())
    offer(name.name.substr(name.name.rfind('.') + 1), std::string(name.name));
  for (const OpEntry& op : ops_.all()) {
    const OpName parts = split_op_name(op.name);
    if (!names.contains(parts.base)) offer(parts.base, parts.packet());
  }
  entries_.each_index([&](const Index& owner) {
    owner.each_definition([&](const Definition& definition) {
      if (definition.symbol.find('#') != std::string_view::npos) return;
      const auto components = symbol_components(definition.symbol);
      if (components.empty() || names.contains(components.back())) return;
      offer(components.back(), joined(components, "::"));
    });
  });
  return names;
}

const std::vector<std::string>& NameSuggestions::words() {
  if (words_.empty())
    for (const auto& [word, full] : names_by_word()) words_.push_back(word);
  return words_;
}

}  // namespace optrace
