#include "lookup/locate/op_spelling.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "platform/text/ascii_text.h"
#include "pytorch/functions/generated_names.h"
#include "pytorch/names/op_name.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxSpellingLength = 200;  // Bytes. The longest name in torch 2.6 has 75.
constexpr std::size_t kNearNames = 5;

// Prefixes of Python names, and the corresponding prefixes of op names. Rows are tried in order, so
// longer prefixes come first.
struct PrefixRow {
  std::string_view python;
  std::string_view op;
};
constexpr auto kPrefixes = std::to_array<PrefixRow>({
    {"torch.nn.functional.", ""},
    {"nn.functional.", ""},
    {"functional.", ""},
    {"F.", ""},
    {"torch._C._nn.", ""},
    {"torch._C._VariableFunctions.", ""},
    {"torch._C.TensorBase.", ""},
    {"torch._C._linalg.", "linalg_"},
    {"torch._C._fft.", "fft_"},
    {"torch._C._special.", "special_"},
    {"torch._C._sparse.", "sparse_"},
    {"torch._C._nested.", "nested_"},
    {"torch.Tensor.", ""},
    {"Tensor.", ""},
    {"torch._tensor.Tensor.", ""},
    {"torch.linalg.", "linalg_"},
    {"linalg.", "linalg_"},
    {"torch.fft.", "fft_"},
    {"fft.", "fft_"},
    {"torch.special.", "special_"},
    {"special.", "special_"},
    {"torch.sparse.", "sparse_"},
    {"torch.nested.", "nested_"},
    {"torch.", ""},
});

constexpr auto kClassPrefixes =
    std::to_array<std::string_view>({"torch.nn.modules.", "torch.nn.", "nn."});

// Returns `convtranspose2d` for `ConvTranspose2d` and for `conv_transpose2d`.
std::string folded(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (c != '_') text += lower(c);
  return text;
}

// Returns `batchnorm` for `batchnorm2d`. Many classes name dimensions that their op takes from its
// input.
std::string_view without_dimensions(std::string_view name) {
  if (name.size() > 2 && name.back() == 'd' && name[name.size() - 2] >= '1' &&
      name[name.size() - 2] <= '3')
    name.remove_suffix(2);
  return name;
}

// Returns the Damerau-Levenshtein distance of two short words, or `limit` + 1 if it exceeds
// `limit`.
std::size_t distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return limit + 1;
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    std::size_t least = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1,
                         above[j - 1] + (a[i - 1] == b[j - 1] ? std::size_t{0} : std::size_t{1})});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    if (least > limit) return limit + 1;
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

/// The ops of an index by name.
class Names {
 public:
  explicit Names(const SourceIndexes& index) : entries_(index.ops()) {
    for (const Registration& one : index.extension_registrations())
      if (one.kind == RegistrationKind::definition &&
          one.name.find("::") != std::string_view::npos && !has(one.name))
        entries_.push_back({one.name, {}, one.location});
    // Sort in the yaml's order. An op that torchgen adds to an entry has the entry's line.
    std::ranges::stable_sort(entries_, [](const OpEntry& a, const OpEntry& b) {
      return a.location.line < b.location.line;
    });
  }

  // Returns the overloads of a packet such as `aten::add`, in the yaml's order.
  std::vector<std::string> overloads(std::string_view packet) const {
    std::vector<std::string> found;
    for (const OpEntry& entry : entries_) {
      if (!entry.name.starts_with(packet)) continue;
      const std::string_view rest = entry.name.substr(packet.size());
      if (rest.empty() || rest.front() == '.') found.emplace_back(entry.name);
    }
    return found;
  }

  // Returns the first packet (`aten::add`) for whose base name `fits` is true; empty if there is
  // none.
  template <typename Fits>
  std::string first_packet(Fits fits) const {
    for (const OpEntry& entry : entries_)
      if (const OpName name = split_op_name(entry.name); fits(name.base)) return name.packet();
    return {};
  }

  std::vector<std::string> bases() const {
    std::vector<std::string> names;
    names.reserve(entries_.size());
    for (const OpEntry& entry : entries_) names.push_back(split_op_name(entry.name).base);
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

 private:
  bool has(std::string_view name) const {
    return std::ranges::any_of(entries_, [&](const OpEntry& entry) { return entry.name == name; });
  }

  std::vector<OpEntry> entries_;
};

// Returns `aten::add` for `ops.aten.add.default`, with or without `torch.` in front; nothing for
// other spellings.
std::optional<std::string> of_ops(std::string_view spelling) {
  constexpr std::string_view kDefault = ".default";
  auto name = of_torch_ops(spelling.starts_with("ops.") ? std::string("torch.").append(spelling)
                                                        : std::string(spelling));
  if (name && name->ends_with(kDefault)) name->erase(name->size() - kDefault.size());
  return name;
}

class Speller {
 public:
  Speller(const SourceIndexes& index, std::string_view spelling)
      : index_(index), names_(index), spelling_(spelling) {}

  SpelledOp find() {
    // `add.` names no overload.
    const bool ends_amiss = spelling_.ends_with('.') || spelling_.ends_with(':');
    if (ends_amiss) {
      found_.near = suggestions();
      return std::move(found_);
    }
    if (qualified() || plain(spelling_) || prefixed() || of_class() || of_python_name())
      return std::move(found_);
    found_.near = suggestions();
    return std::move(found_);
  }

 private:
  bool take(std::string_view full, std::string_view by_way_of = {}) {
    const OpName name = split_op_name(full);
    found_.overloads = names_.overloads(name.packet());
    if (found_.overloads.empty()) return take_registered(full);
    const bool is_one = std::ranges::find(found_.overloads, full) != found_.overloads.end();
    if (!is_one && !name.overload.empty()) return false;
    found_.chosen_by_user = !name.overload.empty() || found_.overloads.size() == 1;
    found_.name = is_one ? std::string(full) : most_used(found_.overloads);
    found_.by_way_of = by_way_of;
    return true;
  }

  // For a packet without an unnamed overload: returns the first overload that is not an out
  // variant.
  static const std::string& most_used(const std::vector<std::string>& overloads) {
    const auto found = std::ranges::find_if(overloads, [](const std::string& one) {
      const std::string overload = split_op_name(one).overload;
      return overload != "out" && !overload.ends_with("_out");
    });
    return found == overloads.end() ? overloads.front() : *found;
  }

  // Takes an op that only C++ declares, with TORCH_LIBRARY.
  bool take_registered(std::string_view full) {
    if (index_.registrations_of(full).empty()) return false;
    found_.overloads = {std::string(full)};
    found_.name = full;
    found_.chosen_by_user = true;
    return true;
  }

  // Parses `aten::add`, `aten::add.Tensor`, `torch.ops.aten.add`.
  bool qualified() {
    std::string name(spelling_);
    if (const auto from_ops = of_ops(spelling_)) name = *from_ops;
    if (name.find("::") == std::string::npos) return false;
    if (name.ends_with(".default")) name.erase(name.size() - std::string_view(".default").size());
    if (take(name)) return true;
    return take_unambiguous(name);
  }

  // Parses `add_Tensor`, as in at::_ops::add_Tensor.
  bool take_unambiguous(std::string_view name) {
    if (name.starts_with("at::_ops::")) name.remove_prefix(std::string_view("at::_ops::").size());
    name = name.substr(0, name.find("::"));
    const auto entry = index_.find_op(name);
    if (!entry || !take(entry->name)) return false;
    found_.chosen_by_user = true;
    found_.name = entry->name;
    return true;
  }

  // Parses `add`, `add.Tensor`, `add_Tensor`.
  bool plain(std::string_view name) {
    if (name.empty() || name.find("::") != std::string_view::npos) return false;
    if (take(fmt::format("aten::{}", name)) || take_unambiguous(name)) return true;
    // Ops of projects, without their namespace.
    const OpName parts = split_op_name(name);
    const std::string packet =
        names_.first_packet([&](std::string_view base) { return base == parts.base; });
    return !packet.empty() && take(parts.overload.empty() ? packet : packet + "." + parts.overload);
  }

  bool prefixed() {
    for (const auto& [python, op] : kPrefixes) {
      if (!spelling_.starts_with(python)) continue;
      const std::string_view rest = spelling_.substr(python.size());
      if (!op.empty() && plain(fmt::format("{}{}", op, rest))) return true;
      if (plain(rest)) return true;
    }
    return false;
  }

  // Parses `nn.ConvTranspose2d`: takes the op with the same words.
  bool of_class() {
    std::string_view name = spelling_;
    for (const std::string_view prefix : kClassPrefixes)
      if (name.starts_with(prefix)) {
        name.remove_prefix(prefix.size());
        break;
      }
    if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos)
      name.remove_prefix(dot + 1);
    if (name.empty() || std::isupper(static_cast<unsigned char>(name.front())) == 0) return false;
    const std::string letters = folded(name);
    std::string packet = names_.first_packet(
        [&](std::string_view base) { return !base.starts_with('_') && folded(base) == letters; });
    if (packet.empty() && without_dimensions(letters) != letters)
      packet = names_.first_packet([&](std::string_view base) {
        return !base.starts_with('_') && folded(base) == without_dimensions(letters);
      });
    return !packet.empty() && take(packet, fmt::format("the op of the name of nn.{}", name));
  }

  // A Python name may stand for another function: an alias, or a builtin whose binding contains the
  // op's name (`THPVariable_conv2d`).
  bool of_python_name() {
    std::string name(spelling_);
    for (int step = 0; step < 4; ++step) {
      std::optional<PythonName> known;
      const std::string_view plain_name =
          name.starts_with("F.") ? std::string_view(name).substr(2) : std::string_view(name);
      for (const std::string_view prefix : {"", "torch.", "torch.nn.functional."}) {
        known = index_.find_python_name(std::string(prefix).append(plain_name));
        if (known) break;
      }
      if (!known) return false;
      if (known->kind == PythonKind::builtin) {
        std::string_view op = bound_name(known->target);
        // The binding's mangled name ends with `E` and the types of its parameters.
        while (!op.empty())
          if (op.remove_suffix(1);
              take(fmt::format("aten::{}", op), fmt::format("{}'s binding", name)))
            return true;
        return false;
      }
      if (known->kind != PythonKind::alias || known->target == name) return false;
      name = known->target;
      const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
      if (take(fmt::format("aten::{}", last), fmt::format("{} is {}", spelling_, name)))
        return true;
    }
    return false;
  }

  std::vector<std::string> suggestions() const {
    std::string_view rest = spelling_;
    for (const auto& [python, op] : kPrefixes)
      if (rest.starts_with(python)) {
        rest.remove_prefix(python.size());
        break;
      }
    if (rest.starts_with("nn.")) rest.remove_prefix(std::string_view("nn.").size());
    if (const std::size_t colons = rest.rfind("::"); colons != std::string_view::npos)
      rest.remove_prefix(colons + 2);
    const std::string_view base = rest.substr(0, rest.find('.'));
    // For a known packet with a wrong overload, suggest the existing overloads.
    for (const std::string_view packet : {base, rest}) {
      std::vector<std::string> overloads = names_.overloads(fmt::format("aten::{}", packet));
      if (!overloads.empty()) return overloads;
    }
    return near_names(base.empty() ? rest : base, names_.bases(), kNearNames);
  }

  const SourceIndexes& index_;
  Names names_;
  std::string_view spelling_;
  SpelledOp found_;
};

}  // namespace

std::optional<std::string> of_torch_ops(std::string_view spelling) {
  constexpr std::string_view kOps = "torch.ops.";
  if (!spelling.starts_with(kOps)) return std::nullopt;
  std::string name(spelling.substr(kOps.size()));
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos) return std::nullopt;
  return name.replace(dot, 1, "::");
}

std::vector<std::string> near_names(std::string_view misspelt,
                                    const std::vector<std::string>& names, std::size_t limit) {
  if (misspelt.empty() || misspelt.size() > kMaxSpellingLength) return {};
  const std::string word = folded(misspelt);
  // In a short word, two letters are half of it.
  const std::size_t farthest = word.size() <= 4 ? 1 : std::max<std::size_t>(2, word.size() / 4);
  // (distance, 1 for a leading underscore, name). A name that contains the word is at most
  // `farthest` away.
  std::vector<std::tuple<std::size_t, std::size_t, std::string>> found;
  for (const std::string& name : names) {
    const std::string other = folded(name);
    std::size_t far = distance(word, other, farthest);
    if (far > farthest && word.size() >= 3 && other.find(word) != std::string::npos) far = farthest;
    if (far <= farthest) found.emplace_back(far, name.starts_with('_') ? 1 : 0, name);
  }
  std::ranges::sort(found);
  if (found.size() > limit) found.resize(limit);
  std::vector<std::string> nearest;
  nearest.reserve(found.size());
  for (auto& one : found) nearest.push_back(std::move(std::get<2>(one)));
  return nearest;
}

SpelledOp find_spelled_op(const SourceIndexes& index, std::string_view spelling) {
  if (spelling.empty() || spelling.size() > kMaxSpellingLength) return {};
  return Speller(index, spelling).find();
}

}  // namespace optrace
