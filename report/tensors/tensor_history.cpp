#include "report/tensors/tensor_history.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace optrace {
namespace {

constexpr std::size_t kMaxDepth = 100;  // Of the calls around a copy.
constexpr std::size_t kMaxSteps = 100;  // Of each history, if there is one for each variable.

using VariableKey = std::tuple<std::string, std::string, std::string>;

VariableKey key_of(const LoggedVariable& variable) {
  return {variable.file, variable.function, variable.name};
}

ReasonedCopy reasoned(const TensorLog& log, const TensorCopy& copy) {
  ReasonedCopy result{copy, nullptr, {}};
  for (const LoggedCall* call = log.call(copy.call);
       call != nullptr && result.through.size() < kMaxDepth; call = log.call(call->outer)) {
    result.through.insert(result.through.begin(), call->name);
    result.asked = call;
  }
  return result;
}

// Returns true if one of the tensors that the call returns or writes to is in one of the storages.
bool touches(const LoggedCall& call, const std::set<std::uint64_t>& storages) {
  const auto inside = [&](const StoredTensor& tensor) { return storages.contains(tensor.storage); };
  return std::ranges::any_of(call.results, inside) ||
         std::ranges::any_of(call.arguments, [&](const StoredTensor& tensor) {
           return tensor.written && inside(tensor);
         });
}

// Makes the histories of variables. The changes of all variables are followed in one pass.
class HistoryMaker {
 public:
  HistoryMaker(const TensorLog& log, std::size_t most_steps)
      : log_(log), most_steps_(most_steps), copies_(all_copies(log)) {
    for (const ReasonedCopy& copy : copies_)
      if (copy.asked != nullptr) inside_[copy.asked->number].push_back(&copy);
  }

  // `until`: the number of changes after which the variable no longer refers to the tensor. It must
  // not be smaller than in the call before.
  TensorHistory make(const LoggedVariable& variable, std::size_t until) {
    follow(until);
    TensorHistory history;
    history.variable = &variable;
    history.at_end = until == log_.variables.size();
    const std::uint64_t storage = variable.tensor.storage;
    if (storage == 0) return history;
    for (const auto& [key, other] : by_storage_[storage])
      if (key != key_of(variable))
        history.shared.push_back({other, other->identity == variable.identity});
    for (const ReasonedCopy& copy : copies_) {
      if (copy.copy.to == storage) history.copied_from.push_back(copy);
      if (copy.copy.from == storage) history.copied_to.push_back(copy);
    }
    add_steps(history);
    return history;
  }

 private:
  void follow(std::size_t until) {
    for (; followed_ < until; ++followed_) {
      const LoggedVariable& variable = log_.variables[followed_];
      const VariableKey key = key_of(variable);
      if (const auto known = storage_of_.find(key); known != storage_of_.end()) {
        by_storage_[known->second].erase(key);
        storage_of_.erase(known);
      }
      if (!variable.bound) continue;
      by_storage_[variable.tensor.storage][key] = &variable;
      storage_of_[key] = variable.tensor.storage;
    }
  }

  // Backward: what was copied to a storage of the history belongs to it until then.
  void add_steps(TensorHistory& history) {
    std::set<std::uint64_t> storages{history.variable->tensor.storage};
    for (std::size_t i = log_.calls.size(); i-- > 0;) {
      const LoggedCall& call = log_.calls[i];
      if (call.outer != 0 || call.is_node || !touches(call, storages)) continue;
      if (history.steps.size() == most_steps_) {
        history.has_all_steps = false;
        break;
      }
      HistoryStep step{&call, {}};
      if (const auto made = inside_.find(call.number); made != inside_.end()) {
        for (const ReasonedCopy* const copy : made->second) {
          if (!storages.contains(copy->copy.to)) continue;
          storages.insert(copy->copy.from);
          step.copies.push_back(*copy);
        }
      }
      history.steps.push_back(std::move(step));
    }
    std::ranges::reverse(history.steps);
  }

  const TensorLog& log_;
  const std::size_t most_steps_;  // Of one history.
  const std::vector<ReasonedCopy> copies_;
  std::map<std::uint64_t, std::vector<const ReasonedCopy*>> inside_;  // By the outermost call.
  std::size_t followed_ = 0;                                          // Changes of variables.
  // The variables that refer to tensors, after these changes.
  std::map<VariableKey, std::uint64_t> storage_of_;
  std::map<std::uint64_t, std::map<VariableKey, const LoggedVariable*>> by_storage_;
};

// Returns true for a tensor in a container or an attribute.
bool is_nested(const LoggedVariable& variable) {
  return variable.name.find_first_of(".[") != std::string::npos;
}

// Returns true if two successive changes end variables of a function at the same moment.
bool end_together(const LoggedVariable& one, const LoggedVariable& next) {
  return !one.bound && !next.bound && one.after == next.after && one.function == next.function &&
         one.file == next.file;
}

// Returns true for a variable that has the name, or whose name ends with it, after a dot.
bool has_name(const LoggedVariable& variable, std::string_view name) {
  const std::string full = full_name(variable);
  if (!full.ends_with(name)) return false;
  return full.size() == name.size() || full[full.size() - name.size() - 1] == '.';
}

}  // namespace

std::string full_name(const LoggedVariable& variable) {
  return variable.function.empty() ? variable.name : variable.function + "." + variable.name;
}

std::vector<ReasonedCopy> all_copies(const TensorLog& log) {
  std::vector<ReasonedCopy> copies;
  for (const LoggedCall& call : log.calls)
    for (const TensorCopy& copy : copies_of(log, call)) copies.push_back(reasoned(log, copy));
  return copies;
}

std::vector<TensorHistory> histories_of(const TensorLog& log, std::string_view name) {
  // For each variable, its last tensor and the number of changes until it no longer refers to it.
  std::map<VariableKey, std::pair<const LoggedVariable*, std::size_t>> last;
  std::vector<VariableKey> order;
  std::map<VariableKey, std::size_t> first;  // Their places in `order`.
  std::size_t ended = 0;  // The first change of those that end variables at one moment.
  for (std::size_t i = 0; i < log.variables.size(); ++i) {
    const LoggedVariable& variable = log.variables[i];
    if (i == 0 || !end_together(log.variables[i - 1], variable)) ended = i;
    if (!name.empty() && !has_name(variable, name)) continue;
    const auto [place, added] =
        last.emplace(key_of(variable), std::pair(nullptr, log.variables.size()));
    if (added) {
      first.emplace(key_of(variable), order.size());
      order.push_back(key_of(variable));
    }
    if (variable.bound)
      place->second = {&variable, log.variables.size()};
    else if (place->second.second == log.variables.size())
      place->second.second = ended;
  }
  std::erase_if(order, [&](const VariableKey& key) { return last[key].first == nullptr; });
  std::ranges::stable_sort(order, {}, [&](const VariableKey& key) { return last[key].second; });
  HistoryMaker maker(log, name.empty() ? kMaxSteps : log.calls.size());
  std::vector<TensorHistory> histories;
  histories.reserve(order.size());
  for (const VariableKey& key : order)
    histories.push_back(maker.make(*last[key].first, last[key].second));
  std::ranges::stable_sort(histories, {}, [&](const TensorHistory& history) {
    return std::pair(is_nested(*history.variable), first[key_of(*history.variable)]);
  });
  return histories;
}

std::map<std::uint64_t, std::vector<std::string>> names_of_storages(const TensorLog& log) {
  std::map<std::uint64_t, std::vector<std::string>> names;
  for (const LoggedVariable& variable : log.variables) {
    if (!variable.bound || variable.tensor.storage == 0) continue;
    std::vector<std::string>& known = names[variable.tensor.storage];
    if (std::string name = full_name(variable); std::ranges::find(known, name) == known.end())
      known.push_back(std::move(name));
  }
  return names;
}

}  // namespace optrace
