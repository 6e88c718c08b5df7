#include "report/compare/call_difference.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/details/call_detail.h"
#include "report/model/json_fields.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

// Keys of identities, counts and measurements, which are not part of a request.
constexpr auto kIdentities =
    std::to_array<std::string_view>({"uid", "stream", "calls", "time", "duration", "duration_ns",
                                     "total_time", "correlation", "context"});

// Keys of choices that a library's heuristics make.
constexpr auto kChoices =
    std::to_array<std::string_view>({"engine", "knobs", "workspace", "algorithm", "heuristic"});

template <std::size_t N>
bool is_one_of(std::string_view key, const std::array<std::string_view, N>& keys) {
  return std::ranges::find(keys, key) != keys.end();
}

/// Copies the record without identities, at any depth. The readers of traces and reports limit the
/// depth of records.
Json without_identities(const Json& record) {
  if (record.is_array()) {
    Json kept = Json::array();
    for (const Json& part : record) kept.push_back(without_identities(part));
    return kept;
  }
  if (!record.is_object()) return record;
  Json kept = Json::object();
  for (const auto& [key, value] : record.items())
    if (!is_one_of(key, kIdentities)) kept[key] = without_identities(value);
  return kept;
}

struct Record {
  Json content;
  Json choices;  // Choices of an emulated library, or of the real one compared with it.
  std::uint64_t calls = 0;
};

struct Records {
  std::vector<Record> list;
  bool chosen_by_emulation = false;
};

Records records_of(const Frame& frame) {
  Records found;
  if (!frame.detail.is_object()) return found;
  for (const char* const key : {"calls", "launches"}) {
    const auto list = frame.detail.find(key);
    if (list == frame.detail.end() || !list->is_array()) continue;
    for (const Json& record : *list) {
      if (!record.is_object()) continue;
      found.chosen_by_emulation =
          found.chosen_by_emulation || text_at(record, "heuristic") == "emulated";
      found.list.push_back({without_identities(record), Json::object(), count_at(record, "calls")});
    }
  }
  return found;
}

std::set<std::string> keys_of(const Records& records) {
  std::set<std::string> keys;
  for (const Record& record : records.list)
    for (const auto& [key, value] : record.content.items()) keys.insert(key);
  return keys;
}

void keep_common_keys(Records& records, const std::set<std::string>& of_other) {
  for (Record& record : records.list)
    for (auto item = record.content.begin(); item != record.content.end();)
      item = of_other.contains(item.key()) ? std::next(item) : record.content.erase(item);
}

void set_choices_apart(Records& records) {
  for (Record& record : records.list) {
    for (const std::string_view key : kChoices) {
      const auto found = record.content.find(key);
      if (found == record.content.end()) continue;
      if (key != "heuristic") record.choices[std::string(key)] = *found;
      record.content.erase(found);
    }
  }
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  return fmt::format("{}", fmt::join(parts, between));
}

/// Returns only the differing values of two records of the same kind.
std::pair<std::string, std::string> differing_values(const Json& before, const Json& after) {
  const Json flat_before = before.flatten(), flat_after = after.flatten();
  std::set<std::string> keys;
  for (const Json& flat : {flat_before, flat_after})
    for (const auto& [key, value] : flat.items()) {
      // Show a list of numbers as a whole: /operations/0/x/dims/1 is part of its dims.
      const auto* const whole = &key;
      const std::size_t cut = whole->rfind('/');
      const bool in_list = cut != std::string::npos && cut + 1 < whole->size() &&
                           whole->find_first_not_of("0123456789", cut + 1) == std::string::npos &&
                           value.is_number();
      keys.insert(in_list ? whole->substr(0, cut) : *whole);
    }
  std::vector<std::string> of_before, of_after;
  const auto value_at = [](const Json& record, const std::string& key) {
    const Json::json_pointer place(key);
    return record.contains(place) ? record[place] : Json();
  };
  for (const std::string& key : keys) {
    const Json one = value_at(before, key), other = value_at(after, key);
    if (one == other) continue;
    std::string name = key.empty() ? key : key.substr(1);
    std::ranges::replace(name, '/', '.');
    of_before.push_back(fmt::format("{} {}", name, one.is_null() ? "none" : text_of(one)));
    of_after.push_back(fmt::format("{} {}", name, other.is_null() ? "none" : text_of(other)));
  }
  return {joined(of_before, ", "), joined(of_after, ", ")};
}

/// Counts how often each kind of record occurs.
std::map<std::string, std::pair<const Json*, std::uint64_t>> kinds_of(const Records& records,
                                                                      bool choices) {
  std::map<std::string, std::pair<const Json*, std::uint64_t>> kinds;
  for (const Record& record : records.list) {
    const Json& content = choices ? record.choices : record.content;
    if (choices && content.empty()) continue;
    auto& [one, calls] = kinds[content.dump(-1, ' ', false, Json::error_handler_t::replace)];
    one = &content;
    calls += record.calls;
  }
  return kinds;
}

std::pair<std::string, std::string> compare_kinds(const Records& before, const Records& after,
                                                  bool choices, std::uint64_t times_before,
                                                  std::uint64_t times_after) {
  const auto of_before = kinds_of(before, choices), of_after = kinds_of(after, choices);
  std::vector<std::pair<const Json*, std::uint64_t>> only_before, only_after;
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
    for (const auto& [one, calls] : only_before) whole_before.push_back(text_of(*one));
    for (const auto& [one, calls] : only_after) whole_after.push_back(text_of(*one));
    texts = {joined(whole_before, "; "), joined(whole_after, "; ")};
  }
  return texts;
}

bool is_emulated(const Frame& frame) {
  return frame.detail.is_object() && frame.detail.value("emulated", Json()) == true;
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
  // Device kernels are not marked as emulated. Compare the keys that both launches have.
  if (is_emulated(before) != is_emulated(after) || before.layer == Layer::device) {
    const std::set<std::string> keys_before = keys_of(of_before), keys_after = keys_of(of_after);
    if (!keys_before.empty() && !keys_after.empty()) {
      keep_common_keys(of_before, keys_after);
      keep_common_keys(of_after, keys_before);
    }
  }
  std::tie(found.before, found.after) =
      compare_kinds(of_before, of_after, false, before.calls, after.calls);
  return found;
}

}  // namespace optrace
