#include "report/tensors/variable_story.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace optrace {
namespace {

constexpr std::size_t kMaxDepth = 100;  // Of the calls around a copy.

using VariableKey = std::tuple<std::string, std::string, std::string>;

VariableKey key_of(const JournalVariable& variable) {
  return {variable.file, variable.function, variable.name};
}

ReasonedCopy reasoned(const TensorJournal& journal, const TensorCopy& copy) {
  ReasonedCopy result{copy, nullptr, {}};
  for (const JournalCall* call = journal.call(copy.call);
       call != nullptr && result.through.size() < kMaxDepth; call = journal.call(call->outer)) {
    result.through.insert(result.through.begin(), call->name);
    result.asked = call;
  }
  return result;
}

// The variables that refer to tensors, after the first `count` changes.
std::map<VariableKey, const JournalVariable*> bound_after(const TensorJournal& journal,
                                                          std::size_t count) {
  std::map<VariableKey, const JournalVariable*> bound;
  for (std::size_t i = 0; i < count; ++i) {
    const JournalVariable& variable = journal.variables[i];
    if (variable.bound)
      bound[key_of(variable)] = &variable;
    else
      bound.erase(key_of(variable));
  }
  return bound;
}

// Returns true if one of the tensors that the call returns or writes to is in one of the storages.
bool touches(const JournalCall& call, const std::set<std::uint64_t>& storages) {
  const auto inside = [&](const JournalTensor& tensor) {
    return storages.contains(tensor.storage);
  };
  return std::ranges::any_of(call.results, inside) ||
         std::ranges::any_of(call.arguments, [&](const JournalTensor& tensor) {
           return tensor.written && inside(tensor);
         });
}

VariableStory story_of(const TensorJournal& journal, const JournalVariable& variable,
                       std::size_t until, const std::vector<ReasonedCopy>& copies) {
  VariableStory story;
  story.variable = &variable;
  story.at_end = until == journal.variables.size();
  const std::uint64_t storage = variable.tensor.storage;
  if (storage == 0) return story;
  for (const auto& [key, other] : bound_after(journal, until))
    if (key != key_of(variable) && other->tensor.storage == storage)
      story.shared.push_back({other, other->identity == variable.identity});
  std::map<std::uint64_t, std::vector<ReasonedCopy>> inside;  // By the outermost call.
  for (const ReasonedCopy& copy : copies) {
    if (copy.copy.to == storage) story.copied_from.push_back(copy);
    if (copy.copy.from == storage) story.copied_to.push_back(copy);
    if (copy.asked != nullptr) inside[copy.asked->number].push_back(copy);
  }
  // Backward: what was copied to a storage of the story belongs to it until then.
  std::set<std::uint64_t> storages{storage};
  for (std::size_t i = journal.calls.size(); i-- > 0;) {
    const JournalCall& call = journal.calls[i];
    if (call.outer != 0 || call.is_node || !touches(call, storages)) continue;
    StoryStep step{&call, {}};
    for (const ReasonedCopy& copy : inside[call.number]) {
      if (!storages.contains(copy.copy.to)) continue;
      storages.insert(copy.copy.from);
      step.copies.push_back(copy);
    }
    story.steps.push_back(std::move(step));
  }
  std::ranges::reverse(story.steps);
  return story;
}

}  // namespace

std::string full_name(const JournalVariable& variable) {
  return variable.function.empty() ? variable.name : variable.function + "." + variable.name;
}

std::vector<ReasonedCopy> all_copies(const TensorJournal& journal) {
  std::vector<ReasonedCopy> copies;
  for (const JournalCall& call : journal.calls)
    for (const TensorCopy& copy : copies_of(journal, call))
      copies.push_back(reasoned(journal, copy));
  return copies;
}

std::vector<VariableStory> stories_of(const TensorJournal& journal, std::string_view name) {
  // For each variable, its last tensor and the number of changes until it no longer refers to it.
  std::map<VariableKey, std::pair<const JournalVariable*, std::size_t>> last;
  std::vector<VariableKey> order;
  for (std::size_t i = 0; i < journal.variables.size(); ++i) {
    const JournalVariable& variable = journal.variables[i];
    if (!name.empty() && name != variable.name && name != full_name(variable)) continue;
    const auto [place, added] =
        last.emplace(key_of(variable), std::pair(nullptr, journal.variables.size()));
    if (added) order.push_back(key_of(variable));
    if (variable.bound)
      place->second = {&variable, journal.variables.size()};
    else if (place->second.second == journal.variables.size())
      place->second.second = i;
  }
  const std::vector<ReasonedCopy> copies = all_copies(journal);
  std::vector<VariableStory> stories;
  for (const VariableKey& key : order)
    if (const auto& [variable, until] = last[key]; variable != nullptr)
      stories.push_back(story_of(journal, *variable, until, copies));
  return stories;
}

std::map<std::uint64_t, std::vector<std::string>> names_of_storages(const TensorJournal& journal) {
  std::map<std::uint64_t, std::vector<std::string>> names;
  for (const JournalVariable& variable : journal.variables) {
    if (!variable.bound || variable.tensor.storage == 0) continue;
    std::vector<std::string>& known = names[variable.tensor.storage];
    if (std::string name = full_name(variable); std::ranges::find(known, name) == known.end())
      known.push_back(std::move(name));
  }
  return names;
}

}  // namespace optrace
