#include "indexer/builders/on_demand.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <tuple>
#include <utility>

#include "indexer/builders/tree_work.h"
#include "indexer/sources/progress_reporter.h"
#include "indexer/sources/source_tree.h"
#include "indexer/store/index_catalogue.h"
#include "indexer/store/op_facts.h"
#include "platform/files/output_file.h"
#include "platform/files/whole_file.h"
#include "platform/process/interrupt.h"
#include "platform/text/ascii_text.h"
#include "pytorch/source/source_files.h"

namespace optrace {
namespace {

// Limits that keep the answer within about three seconds on two processors: the number of units
// that define the names, the number of units that define the functions called by them, and the
// depth of calls followed.
constexpr std::size_t kMaxUnits = 12;
constexpr std::size_t kMaxUnitsOfCallees = 6;
constexpr int kMaxLevels = 8;

// Notes of such an index: the tree, and the units and the requested names, one per line.
constexpr const char* kTreeNote = "on_demand";
constexpr const char* kUnitsNote = "on_demand_units";
constexpr const char* kNamesNote = "on_demand_names";

std::set<std::string> lines_of(std::string_view text) {
  std::set<std::string> lines;
  while (!text.empty()) {
    const std::size_t size = std::min(text.find('\n'), text.size());
    lines.emplace(text.substr(0, size));
    text.remove_prefix(std::min(size + 1, text.size()));
  }
  return lines;
}

std::string to_lines(const std::set<std::string>& texts) {
  std::string lines;
  for (const auto& text : texts) lines += text + '\n';
  return lines;
}

// Prefix of the classes that TORCH_META_FUNC and TORCH_IMPL_FUNC define.
constexpr std::string_view kStructured = "structured_";

constexpr std::size_t kMaxLength = 1 << 20;  // In bytes; longer than any name.

std::string bare(std::string_view name) {
  return std::string(name.substr(name.rfind(':') + 1));
}

// Returns the position of the parenthesis that closes the one at `at`, or npos if it is not near.
std::size_t closing(std::string_view text, std::size_t at) {
  constexpr std::size_t kFar = 4000;
  int depth = 0;
  for (const std::size_t end = std::min(text.size(), at + kFar); at < end; ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) return at;
  }
  return std::string_view::npos;
}

// Returns true if `{` follows, possibly after `const noexcept override` and the like.
bool opens_body(std::string_view rest) {
  for (;;) {
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front())) != 0)
      rest.remove_prefix(1);
    if (rest.starts_with('{')) return true;
    constexpr std::array<std::string_view, 4> kBetween = {"const", "noexcept", "override", "final"};
    const auto* const word = std::ranges::find_if(
        kBetween, [&](std::string_view between) { return rest.starts_with(between); });
    if (word == kBetween.end()) return false;
    rest.remove_prefix(word->size());
  }
}

bool is_in_defining_macro(std::string_view before) {
  constexpr std::array<std::string_view, 5> kMacros = {"TORCH_IMPL_FUNC(", "TORCH_META_FUNC(",
                                                       "TORCH_META_FUNC2(", "DEFINE_DISPATCH(",
                                                       "_DISPATCH("};
  return std::ranges::any_of(kMacros,
                             [&](std::string_view macro) { return before.ends_with(macro); });
}

// Returns the words of a name such as `_scaled_dot_product_attention`.
std::set<std::string_view> words_of(std::string_view name) {
  std::set<std::string_view> words;
  while (!name.empty()) {
    const std::size_t size = std::min(name.find('_'), name.size());
    if (size > 0) words.insert(name.substr(0, size));
    name.remove_prefix(std::min(size + 1, name.size()));
  }
  return words;
}

// The reason to search for a name.
enum class Interest {
  known,    // Its definition was found; only its calls are of interest.
  callee,   // A function calls it.
  backend,  // Its caller delegates to it: `_convolution` to `cudnn_convolution`.
  asked,
};

// Unqualified names of functions.
using Interests = std::map<std::string, Interest>;

void add_interest(const std::string& name, Interest interest, Interests& interests) {
  const auto [at, is_new] = interests.try_emplace(name, interest);
  if (!is_new) at->second = std::max(at->second, interest);
}

// Returns true if the name at [at, end) is that of a function or kernel defined there.
bool is_definition(std::string_view text, std::size_t at, std::size_t end) {
  if (is_in_defining_macro(text.substr(0, at))) return true;
  const std::size_t open = text.find_first_not_of(" \n", end);
  if (open == std::string_view::npos || text[open] != '(') return false;
  const std::size_t close = closing(text, open);
  return close != std::string_view::npos && opens_body(text.substr(close + 1));
}

// Maps the names of ops to the names of their kernels.
class Names {
 public:
  explicit Names(const std::vector<IndexContents::Op>& ops) {
    for (const auto& op : ops) {
      const std::string name = bare(op.name);
      std::set<std::string>& functions = functions_[name.substr(0, name.find('.'))];
      if (op.facts.empty()) continue;
      for (const auto& kernel : parse_op_facts(op.facts).kernels) {
        const std::string function = bare(kernel.name);
        functions.insert(function);
        if (function.starts_with(kStructured))
          functions.insert(function.substr(kStructured.size()));
      }
    }
    for (auto& [base, functions] : functions_) {
      functions.insert(base);
      functions.insert(base + "_stub");
    }
  }

  void add(std::string_view name, Interest interest, Interests& interests) const {
    std::string base = bare(name);
    base.resize(std::min(base.find('.'), base.size()));
    if (base.empty()) return;
    add_interest(base, interest, interests);
    if (const auto op = functions_.find(base); op != functions_.end())
      for (const auto& function : op->second) add_interest(function, interest, interests);
  }

  bool is_op(const std::string& base) const { return functions_.contains(base); }

  // Returns all names that add() may add.
  std::unordered_set<std::string> all() const {
    std::unordered_set<std::string> names;
    for (const auto& [base, functions] : functions_)
      names.insert(functions.begin(), functions.end());
    return names;
  }

 private:
  // Functions of each op, by name without overload.
  std::map<std::string, std::set<std::string>> functions_;
};

// Returns the innermost name of a key such as `_ZN2at6native3addERKNS_` (for `impl` of a structured
// kernel, its class's name), and true if it is in at::_ops. The name is empty outside of namespace
// at.
std::pair<std::string, bool> name_in_at(std::string_view symbol) {
  if (!symbol.starts_with("_ZN2at")) return {};
  symbol.remove_prefix(std::string_view("_ZN").size());
  std::string last;
  while (!symbol.empty() && std::isdigit(static_cast<unsigned char>(symbol.front())) != 0) {
    std::size_t size = 0;
    while (!symbol.empty() && std::isdigit(static_cast<unsigned char>(symbol.front())) != 0) {
      size = std::min<std::size_t>(size * 10, kMaxLength) +
             static_cast<std::size_t>(symbol.front() - '0');
      symbol.remove_prefix(1);
    }
    std::string word(symbol.substr(0, size));
    symbol.remove_prefix(std::min(symbol.size(), size));
    if (last == "_ops") return {word, true};
    if (last.starts_with(kStructured) && (word == "impl" || word == "meta"))
      return {last.substr(kStructured.size()), false};
    last = std::move(word);
  }
  return {last, false};
}

class OnDemand {
 public:
  // `had` is the existing index, or null.
  OnDemand(TreeWork& work, const Index* had)
      : work_(work), names_(work.ops()), units_(work.units()) {
    if (had != nullptr) {
      chosen_ = lines_of(had->note(kUnitsNote));
      asked_ = lines_of(had->note(kNamesNote));
      return;
    }
    for (const auto& unit : units_)
      if (registers_kernels(unit)) chosen_.insert(unit.name);
  }

  AddedOnDemand add(const std::vector<std::string>& names) {
    Interests interests;
    for (const auto& name : names) {
      asked_.insert(name);
      names_.add(name, Interest::asked, interests);
    }
    look_for_definitions(interests);
    AddedOnDemand added;
    std::size_t left = kMaxUnits;
    std::size_t callees_left = kMaxUnitsOfCallees;
    Interests seen = interests;
    for (int level = 0; level < kMaxLevels && !interests.empty(); ++level) {
      std::vector<std::string> units = units_that_define(interests);
      // Units that were chosen before are read for their calls and don't count against the limit.
      const auto fresh = std::stable_partition(
          units.begin(), units.end(), [&](const auto& unit) { return chosen_.contains(unit); });
      std::size_t& room = level == 0 ? left : callees_left;
      const auto taken = std::min(static_cast<std::size_t>(units.end() - fresh), room);
      units.erase(fresh + static_cast<std::ptrdiff_t>(taken), units.end());
      room -= taken;
      chosen_.insert(units.begin(), units.end());
      added.units += taken;
      added.parsed += read(units);
      Interests next = callees(interests);
      std::erase_if(next, [&](const auto& name) { return !seen.insert(name).second; });
      interests = std::move(next);
      if (callees_left == 0) break;
    }
    return added;
  }

  const std::vector<SourceUnit>& units() const { return units_; }
  std::size_t chosen() const { return chosen_.size(); }

  // Writes the contents of the chosen units and of `units`.
  ParsedUnits write(const std::filesystem::path& path, std::vector<SourceUnit> units = {},
                    const ParseOptions& options = {}) {
    std::copy_if(units_.begin(), units_.end(), std::back_inserter(units),
                 [&](const SourceUnit& unit) { return chosen_.contains(unit.name); });
    ParsedUnits parsed = work_.parse(units, options);
    work_.write(merge_findings(parsed.units, parsed.headers),
                {{"units", std::to_string(chosen_.size())},
                 {"units_failed", std::to_string(parsed.failed.size())},
                 {"partial", "yes"},
                 {kTreeNote, work_.tree().folder.string()},
                 {kUnitsNote, to_lines(chosen_)},
                 {kNamesNote, to_lines(asked_)},
                 {"python", work_.python().python.string()}},
                path);
    return parsed;
  }

 private:
  // Parses units to follow the calls in their functions. Returns the number of units that were not
  // cached.
  std::size_t read(const std::vector<std::string>& names) {
    std::vector<SourceUnit> units;
    std::copy_if(
        units_.begin(), units_.end(), std::back_inserter(units),
        [&](const SourceUnit& unit) { return std::ranges::find(names, unit.name) != names.end(); });
    if (units.empty()) return 0;
    const ParsedUnits parsed = work_.parse(units, {});
    auto functions = merge_findings(parsed.units, {}).functions;
    std::move(functions.begin(), functions.end(), std::back_inserter(functions_));
    return parsed.parsed_now;
  }

  // Records where ops, their kernels and `asked` are defined, in one pass over the text of all
  // units.
  void look_for_definitions(const Interests& asked) {
    std::unordered_set<std::string> names = names_.all();
    for (const auto& [name, interest] : asked) names.insert(name);
    look_for_definitions(names, "");
  }

  void look_for_definitions(const std::unordered_set<std::string>& names, std::string_view folder) {
    for (const auto& unit : units_) {
      if (unit.name.starts_with(folder) && is_candidate(unit))
        for (const auto& name : defined_names(read_file(unit.path).value_or(""), names))
          defining_[name].insert(unit.name);
    }
  }

  // Returns the units that define requested names or backends, those with the most first. If there
  // are none, returns the other units, those that define the most names first.
  std::vector<std::string> units_that_define(const Interests& names) const {
    struct Score {
      int foremost = 0;
      int names = 0;
    };
    std::map<std::string, Score> scores;
    for (const auto& [name, interest] : names) {
      const auto units = defining_.find(name);
      if (units == defining_.end() || interest == Interest::known) continue;
      for (const auto& unit : units->second) {
        Score& score = scores[unit];
        score.foremost += interest == Interest::callee ? 0 : 1;
        ++score.names;
      }
    }
    std::vector<std::string> units;
    units.reserve(scores.size());
    for (const auto& [name, score] : scores) units.push_back(name);
    if (std::ranges::any_of(scores, [](const auto& unit) { return unit.second.foremost > 0; }))
      std::erase_if(units, [&](const auto& unit) { return scores.at(unit).foremost == 0; });
    std::ranges::stable_sort(units, [&](const auto& left, const auto& right) {
      const Score& one = scores.at(left);
      const Score& other = scores.at(right);
      return std::tie(one.foremost, one.names) > std::tie(other.foremost, other.names);
    });
    return units;
  }

  // torchgen registers the kernels of all ops for each dispatch key in these files. The
  // registrations for functionalization are left out: they are large and the same for each op.
  static bool registers_kernels(const SourceUnit& unit) {
    return unit.name.starts_with(std::string(kBuiltATen) + "Register") &&
           unit.name.find("Functionalization") == std::string::npos;
  }

  // Generated files name every op and are large. MIOpen and HIP belong to ROCm.
  static bool is_candidate(const SourceUnit& unit) {
    constexpr std::array<std::string_view, 3> kOthers = {"/generated/", "/miopen/", "/hip/"};
    return !unit.name.starts_with("build/") &&
           std::ranges::none_of(kOthers, [&](std::string_view part) {
             return unit.name.find(part) != std::string::npos;
           });
  }

  // Returns the ops that functions of interest call, and the kernels of these ops. For backends,
  // also the functions of at::native that they call, which are in the same folder.
  Interests callees(const Interests& interests) {
    std::unordered_set<std::string> known;
    for (const auto& function : functions_)
      if (function.symbol.starts_with("_ZN2at6native"))
        known.insert(name_in_at(function.symbol).first);
    Interests found;
    std::map<std::string, std::unordered_set<std::string>> unknown;  // By folder.
    for (const auto& function : functions_) {
      const std::string caller = name_in_at(function.symbol).first;
      const auto interest_in_caller = interests.find(caller);
      if (interest_in_caller == interests.end()) continue;
      const bool is_of_backend =
          interest_in_caller->second == Interest::backend || of_backends_.contains(caller);
      const std::set<std::string_view> words = words_of(caller);
      for (const auto& call : function.calls) {
        auto [name, is_op] = name_in_at(call.callee);
        // `at::convolution_symint` calls the op convolution (torchgen/api/types/signatures.py).
        constexpr std::string_view kSymInt = "_symint";
        if (name.ends_with(kSymInt)) name.resize(name.size() - kSymInt.size());
        if (name.empty() || interests.contains(name)) continue;
        if (!is_op && !names_.is_op(name)) {
          if (is_of_backend && call.callee.starts_with("_ZN2at6native")) {
            of_backends_.insert(name);
            add_interest(name, Interest::backend, found);
            if (!known.contains(name))
              unknown[function.file.substr(0, function.file.rfind('/') + 1)].insert(name);
          }
          continue;
        }
        const std::set<std::string_view> callee_words = words_of(name);
        const bool is_backend =
            callee_words.size() > words.size() &&
            std::includes(callee_words.begin(), callee_words.end(), words.begin(), words.end());
        names_.add(name, is_backend ? Interest::backend : Interest::callee, found);
      }
    }
    for (auto& [name, interest] : found)
      if (known.contains(name)) interest = Interest::known;
    for (const auto& [folder, names] : unknown) look_for_definitions(names, folder);
    return found;
  }

  TreeWork& work_;
  Names names_;
  std::vector<SourceUnit> units_;
  std::set<std::string> chosen_;
  std::set<std::string> asked_;
  std::map<std::string, std::set<std::string>> defining_;  // Units by the names that they define.
  std::set<std::string> of_backends_;               // Functions of backends that are not ops.
  std::vector<IndexContents::Function> functions_;  // Functions of the units that were read.
};

}  // namespace

std::set<std::string> defined_names(std::string_view text,
                                    const std::unordered_set<std::string>& names) {
  std::set<std::string> found;
  std::string word;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_word_character(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    while (end < text.size() && is_word_character(text[end])) ++end;
    word.assign(text.substr(at, end - at));
    if (names.contains(word) && !found.contains(word) && is_definition(text, at, end))
      found.insert(word);
    at = end;
  }
  return found;
}

MadeIndex prepare_on_demand(const MakeIndexOptions& options) {
  SourceTree tree = open_source_tree(options.source);
  const std::filesystem::path path =
      options.output.empty() ? own_index_path(tree.version) : options.output;
  {
    const OutputFile trial(path);
  }
  const InterruptGuard guard;
  ProgressReporter progress;
  TreeWork work(std::move(tree), std::filesystem::absolute(options.python), progress);
  work.prepare();
  OnDemand on_demand(work, nullptr);
  // The smallest unit of each group, to get the headers of the group parsed.
  std::vector<SourceUnit> units = on_demand.units();
  std::ranges::stable_sort(units, [](const auto& left, const auto& right) {
    return std::filesystem::file_size(left.path) < std::filesystem::file_size(right.path);
  });
  std::set<UnitGroup> groups;
  std::erase_if(units, [&](const SourceUnit& unit) { return !groups.insert(unit.group).second; });
  const std::size_t count = on_demand.chosen() + units.size();
  ParsedUnits parsed = on_demand.write(
      path, std::move(units), {.jobs = options.jobs, .worker_memory = options.worker_memory});
  return {.path = path,
          .torch_version = work.tree().version,
          .units = count,
          .parsed = parsed.parsed_now,
          .failed = std::move(parsed.failed),
          .differing = {}};
}

bool lacks(const Index& index, const std::vector<std::string>& names) {
  if (index.note(kTreeNote).empty()) return false;
  const std::set<std::string> asked = lines_of(index.note(kNamesNote));
  return !std::ranges::all_of(names, [&](const std::string& name) { return asked.contains(name); });
}

AddedOnDemand add_on_demand(const Index& index, const std::vector<std::string>& names) {
  const InterruptGuard guard;
  ProgressReporter progress;
  TreeWork work(open_source_tree(std::filesystem::path(index.note(kTreeNote))),
                std::filesystem::path(index.note("python")), progress);
  work.prepare();
  OnDemand on_demand(work, &index);
  const AddedOnDemand added = on_demand.add(names);
  on_demand.write(index.path());
  return added;
}

}  // namespace optrace
