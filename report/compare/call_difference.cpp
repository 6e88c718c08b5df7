#include "report/compare/call_difference.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "pytorch/values/named_values.h"
#include "report/details/call_detail.h"
#include "report/json/detail_json.h"

namespace optrace {
namespace {

// Names of identities, counts and measurements, which are not part of a request.
constexpr auto kIdentities =
    std::to_array<std::string_view>({"uid", "stream", "calls", "time", "duration", "duration_ns",
                                     "total_time", "correlation", "context"});

// Names of choices that a library's heuristics make.
constexpr auto kChoices =
    std::to_array<std::string_view>({"engine", "knobs", "workspace", "algorithm", "heuristic"});

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, name) != names.end();
}

using Values = std::vector<NamedValue>;

Values without_identities(const Values& values);

/// Copies the value without identities, at any depth. The readers of traces and reports limit the
/// depth of records.
OpenValue without_identities(const OpenValue& value) {
  if (const auto* const members = std::get_if<Values>(&value.value))
    return {without_identities(*members)};
  const auto* const list = std::get_if<std::vector<OpenValue>>(&value.value);
  if (list == nullptr) return value;
  std::vector<OpenValue> kept;
  kept.reserve(list->size());
  for (const OpenValue& one : *list) kept.push_back(without_identities(one));
  return {std::move(kept)};
}

Values without_identities(const Values& values) {
  Values kept;
  for (const NamedValue& one : values)
    if (!is_one_of(one.name, kIdentities))
      kept.push_back({one.name, without_identities(one.value)});
  return kept;
}

struct Record {
  Values content;
  Values choices;  // Choices of an emulated library, or of the real one compared with it.
  std::uint64_t calls = 0;
};

struct Records {
  std::vector<Record> list;
  bool chosen_by_emulation = false;
};

Records records_of(const Frame& frame) {
  const NamedValue emulated{"heuristic", {std::string("emulated")}};
  Records found;
  const auto add = [&](const auto& record) {
    Values content = without_identities(named_values(record));
    found.chosen_by_emulation =
        found.chosen_by_emulation || std::ranges::find(content, emulated) != content.end();
    found.list.push_back({std::move(content), {}, record.calls});
  };
  std::ranges::for_each(frame.detail->calls, add);
  std::ranges::for_each(frame.detail->launches, add);
  return found;
}

std::set<std::string> names_in(const Records& records) {
  std::set<std::string> names;
  for (const Record& record : records.list)
    for (const NamedValue& one : record.content) names.insert(one.name);
  return names;
}

void keep_common_names(Records& records, const std::set<std::string>& of_other) {
  for (Record& record : records.list)
    std::erase_if(record.content,
                  [&](const NamedValue& one) { return !of_other.contains(one.name); });
}

void set_choices_apart(Records& records) {
  const auto is_choice = [](const NamedValue& one) { return is_one_of(one.name, kChoices); };
  for (Record& record : records.list) {
    for (const NamedValue& one : record.content)
      if (is_choice(one) && one.name != "heuristic") record.choices.push_back(one);
    std::erase_if(record.content, is_choice);
  }
}

std::string text_of(const OpenValue& value) {
  if (std::holds_alternative<std::monostate>(value.value)) return "none";
  const auto* const text = std::get_if<std::string>(&value.value);
  return text != nullptr ? *text : value_json(value);
}

/// The values in a record, at any depth, by their paths: `/operations/0/x/dims`.
class ValuesByPath {
 public:
  /// The record must outlive the object.
  explicit ValuesByPath(const OpenValue& record) { add("", record); }

  /// Returns the paths of the values that have no others in them. A list of numbers is shown as a
  /// whole, so it has no others.
  const std::set<std::string>& innermost() const { return innermost_; }

  /// Returns a value without content if there is no such path.
  OpenValue at(const std::string& path) const {
    const auto found = values_.find(path);
    return found == values_.end() ? OpenValue() : *found->second;
  }

 private:
  void add(const std::string& path, const OpenValue& value) {
    values_.emplace(path, &value);
    bool has_others = false;
    const auto add_part = [&](const std::string& name, const OpenValue& part) {
      const bool in_list =
          !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
      if (in_list && is_number(part)) {
        values_.emplace(path + '/' + name, &part);
        innermost_.insert(path);
      } else {
        add(path + '/' + name, part);
      }
      has_others = true;
    };
    if (const auto* const list = std::get_if<std::vector<OpenValue>>(&value.value))
      for (std::size_t i = 0; i < list->size(); ++i) add_part(std::to_string(i), (*list)[i]);
    else if (const auto* const members = std::get_if<Values>(&value.value))
      for (const NamedValue& one : *members) add_part(one.name, one.value);
    if (!has_others) innermost_.insert(path);
  }

  std::map<std::string, const OpenValue*> values_;
  std::set<std::string> innermost_;
};

/// Returns only the differing values of two records of the same kind.
std::pair<std::string, std::string> differing_values(const Values& before, const Values& after) {
  const OpenValue whole_before{before}, whole_after{after};
  const ValuesByPath values_before(whole_before), values_after(whole_after);
  std::set<std::string> paths = values_before.innermost();
  paths.insert(values_after.innermost().begin(), values_after.innermost().end());
  std::vector<std::string> of_before, of_after;
  for (const std::string& path : paths) {
    const OpenValue one = values_before.at(path), other = values_after.at(path);
    if (one == other) continue;
    std::string name = path.empty() ? path : path.substr(1);
    std::ranges::replace(name, '/', '.');
    of_before.push_back(fmt::format("{} {}", name, text_of(one)));
    of_after.push_back(fmt::format("{} {}", name, text_of(other)));
  }
  return {joined(of_before, ", "), joined(of_after, ", ")};
}

/// Counts how often each kind of record occurs. The keys are the JSON texts of the kinds.
std::map<std::string, std::pair<const Values*, std::uint64_t>> kinds_of(const Records& records,
                                                                        bool choices) {
  std::map<std::string, std::pair<const Values*, std::uint64_t>> kinds;
  for (const Record& record : records.list) {
    const Values& content = choices ? record.choices : record.content;
    if (choices && content.empty()) continue;
    auto& [one, calls] = kinds[value_json(OpenValue{content})];
    one = &content;
    calls += record.calls;
  }
  return kinds;
}

std::pair<std::string, std::string> compare_kinds(const Records& before, const Records& after,
                                                  bool choices, std::uint64_t times_before,
                                                  std::uint64_t times_after) {
  const auto of_before = kinds_of(before, choices), of_after = kinds_of(after, choices);
  std::vector<std::pair<const Values*, std::uint64_t>> only_before, only_after;
  std::vector<std::string> counts_before, counts_after;
  for (const auto& [key, kind] : of_before) {
    const auto same = of_after.find(key);
    if (same == of_after.end()) {
      only_before.push_back(kind);
    } else if (static_cast<double>(kind.second) * static_cast<double>(times_after) !=
               static_cast<double>(same->second.second) * static_cast<double>(times_before)) {
      const std::string line = call_line(*kind.first);
      counts_before.push_back(fmt::format("{} ×{}", line, kind.second));
      counts_after.push_back(fmt::format("{} ×{}", line, same->second.second));
    }
  }
  for (const auto& [key, kind] : of_after)
    if (!of_before.contains(key)) only_after.push_back(kind);
  if (only_before.size() == 1 && only_after.size() == 1)
    return differing_values(*only_before[0].first, *only_after[0].first);
  for (const auto& [one, calls] : only_before) counts_before.push_back(call_line(*one));
  for (const auto& [one, calls] : only_after) counts_after.push_back(call_line(*one));
  std::pair<std::string, std::string> texts{joined(counts_before, "; "),
                                            joined(counts_after, "; ")};
  // The records differ only in values that a line does not show.
  if (texts.first == texts.second && !(only_before.empty() && only_after.empty())) {
    std::vector<std::string> whole_before, whole_after;
    for (const auto& [one, calls] : only_before)
      whole_before.push_back(value_json(OpenValue{*one}));
    for (const auto& [one, calls] : only_after) whole_after.push_back(value_json(OpenValue{*one}));
    texts = {joined(whole_before, "; "), joined(whole_after, "; ")};
  }
  return texts;
}

}  // namespace

CallDifference compare_calls(const Frame& before, const Frame& after) {
  Records of_before = records_of(before), of_after = records_of(after);
  if (of_before.list.empty() && of_after.list.empty()) return {};
  CallDifference found;
  if (of_before.chosen_by_emulation || of_after.chosen_by_emulation) {
    const bool both = of_before.chosen_by_emulation && of_after.chosen_by_emulation;
    if (!both) {
      set_choices_apart(of_before);
      set_choices_apart(of_after);
      std::tie(found.not_known_before, found.not_known_after) =
          compare_kinds(of_before, of_after, true, before.calls, after.calls);
    }
  }
  // Device kernels are not marked as emulated. Compare the values that both launches have.
  if (before.detail->emulated != after.detail->emulated || before.layer == Layer::device) {
    const std::set<std::string> names_before = names_in(of_before),
                                names_after = names_in(of_after);
    if (!names_before.empty() && !names_after.empty()) {
      keep_common_names(of_before, names_after);
      keep_common_names(of_after, names_before);
    }
  }
  std::tie(found.before, found.after) =
      compare_kinds(of_before, of_after, false, before.calls, after.calls);
  return found;
}

}  // namespace optrace
