#include "report/details/decisions.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "present/line_text.h"
#include "pytorch/symbols/symbol_name.h"
#include "report/details/returned_values.h"
#include "report/model/frame_name.h"
#include "report/model/op_call.h"

namespace optrace {
namespace {

constexpr std::string_view kArrow = "→ ";
constexpr std::size_t kMaxSearchDepth = 16;
constexpr std::size_t kMaxDecisions = 24;

std::string returned_by(const Frame& frame) {
  std::string text = returned_text(*frame.detail);
  if (text.starts_with(kArrow)) text.erase(0, kArrow.size());
  return text;
}

/// Returns true if what the frame's function returned is an enumeration: a choice among several.
bool is_choice(const Frame& frame) {
  const std::optional<ReturnedValues>& returned = frame.detail->returned;
  return returned && !describes_tensor(returned->type) &&
         std::ranges::any_of(returned->values, [&](const CountedResult& value) {
           return is_enumerator(value, returned->type);
         });
}

bool has_named_value(const Frame& frame) {
  const std::optional<ReturnedValues>& returned = frame.detail->returned;
  return returned && std::ranges::any_of(returned->values, [](const CountedResult& value) {
           return !value.name.empty();
         });
}

/// Returns `use_cudnn` for `at::native::ConvParams<…>::use_cudnn`.
std::string unqualified_short_name(std::string_view qualified) {
  std::string name = short_name(qualified);
  for (constexpr std::string_view kArguments = "<…>";;) {
    const std::size_t at = name.find(kArguments);
    if (at == std::string::npos) break;
    name.erase(at, kArguments.size());
  }
  return std::string(unqualified_name(name));
}

/// Returns the outermost choice at or below a frame, in the order of calls; null if there is none.
const Frame* find_choice(const Frame& frame) {
  std::vector<std::pair<const Frame*, std::size_t>> pending{{&frame, 0}};
  while (!pending.empty()) {
    const auto [at, depth] = pending.back();
    pending.pop_back();
    if (is_choice(*at)) return at;
    if (depth == kMaxSearchDepth) continue;
    for (auto child = at->children.rbegin(); child != at->children.rend(); ++child)
      pending.emplace_back(&*child, depth + 1);
  }
  return nullptr;
}

/// Returns `use_cudnn false` for each function below a frame that returned a value with a name, in
/// the order of calls. Other values are counts and sizes.
std::vector<std::string> decisions_below(const Frame& frame) {
  std::vector<std::string> texts;
  std::vector<std::pair<const Frame*, std::size_t>> pending{{&frame, 0}};
  while (!pending.empty() && texts.size() < kMaxDecisions) {
    const auto [at, depth] = pending.back();
    pending.pop_back();
    if (at != &frame && has_named_value(*at))
      texts.push_back(fmt::format("{} {}", unqualified_short_name(at->name), returned_by(*at)));
    if (depth == kMaxSearchDepth) continue;
    for (auto child = at->children.rbegin(); child != at->children.rend(); ++child)
      pending.emplace_back(&*child, depth + 1);
  }
  return texts;
}

/// Returns `is_mkldnn (:1212)` for each decision that the source of the frame's function makes and
/// of which there is no call: the compiler has inlined it, or execution has not come to it.
std::vector<std::string> decisions_not_seen(const Frame& frame) {
  std::vector<std::string> texts;
  for (const DecisionNotSeen& one : frame.detail->not_seen)
    texts.push_back(fmt::format("{} (:{}{})", unqualified_short_name(one.name),
                                one.exact ? "" : "~", one.line));
  return texts;
}

/// Returns `Convolution.cpp:1202`.
std::string short_place(const Frame& frame) {
  if (!frame.source) return {};
  const std::string place = place_text(*frame.source);
  return place.substr(place.rfind('/') + 1);
}

}  // namespace

void add_decisions_not_seen(Frame& frame, std::span<const CalledDecision> decisions) {
  std::vector<DecisionNotSeen> not_seen;
  for (const CalledDecision& decision : decisions) {
    const bool seen = std::ranges::any_of(frame.children, [&](const Frame& child) {
      return unqualified_short_name(child.name) == unqualified_short_name(decision.name);
    });
    if (!seen) not_seen.push_back({decision.name, decision.line, !decision.approximate});
  }
  if (!not_seen.empty()) frame.detail.edit().not_seen = std::move(not_seen);
}

std::string decision_note(const Frame& frame, const Frame* parent) {
  if (parent == nullptr || !is_op_call(frame)) return {};
  const Frame* choice = nullptr;
  for (const Frame& sibling : parent->children) {
    if (&sibling == &frame) break;
    const Frame* const found = find_choice(sibling);
    // What comes after the op that was chosen has other reasons.
    if (found != nullptr)
      choice = found;
    else if (is_op_call(sibling))
      choice = nullptr;
  }
  if (choice == nullptr) return {};
  std::string note = fmt::format("because {}", unqualified_short_name(choice->name));
  if (const std::string place = short_place(*choice); !place.empty())
    note += fmt::format(" ({})", place);
  note += " returned " + returned_by(*choice);
  if (const std::vector<std::string> below = decisions_below(*choice); !below.empty())
    note += fmt::format(": {}", joined(below, ", "));
  if (const std::vector<std::string> unknown = decisions_not_seen(*choice); !unknown.empty())
    note += fmt::format("; inlined or not reached: {}", joined(unknown, ", "));
  return note;
}

}  // namespace optrace
