#include "indexer/on_demand.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "indexer/file_text.h"
#include "indexer/index_catalogue.h"
#include "indexer/index_store.h"
#include "indexer/op_facts.h"
#include "indexer/progress_reporter.h"
#include "indexer/source_tree.h"
#include "indexer/tree_work.h"
#include "platform/error.h"
#include "platform/interrupt.h"
#include "platform/output_file.h"

namespace optrace {
namespace {

// So that the answer comes within about three seconds on two processors: of the units that define
// the names, and of those that define what they call, through that many calls.
constexpr std::size_t kMostUnits = 12;
constexpr std::size_t kMostUnitsOfCallees = 5;
constexpr int kMostLevels = 8;

// The names of the units that the index holds, one a line.
constexpr const char* kUnitsFile = "on_demand_units";

bool is_word(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

std::string bare(std::string_view name) {
  return std::string(name.substr(name.rfind(':') + 1));
}

// Where the parenthesis that opens at `at` is closed; npos if nowhere near.
std::size_t closing(std::string_view text, std::size_t at) {
  constexpr std::size_t kFar = 4000;
  int depth = 0;
  for (std::size_t end = std::min(text.size(), at + kFar); at < end; ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) {
      return at;
    }
  }
  return std::string_view::npos;
}

// `const noexcept override {` and the like follow.
bool opens_body(std::string_view rest) {
  for (;;) {
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front())) != 0) {
      rest.remove_prefix(1);
    }
    if (rest.starts_with('{')) {
      return true;
    }
    constexpr std::array<std::string_view, 4> kBetween = {"const", "noexcept", "override", "final"};
    const auto* const word =
        std::find_if(kBetween.begin(), kBetween.end(),
                     [&](std::string_view between) { return rest.starts_with(between); });
    if (word == kBetween.end()) {
      return false;
    }
    rest.remove_prefix(word->size());
  }
}

bool is_in_defining_macro(std::string_view before) {
  constexpr std::array<std::string_view, 5> kMacros = {"TORCH_IMPL_FUNC(", "TORCH_META_FUNC(",
                                                       "TORCH_META_FUNC2(", "DEFINE_DISPATCH(",
                                                       "_DISPATCH("};
  return std::any_of(kMacros.begin(), kMacros.end(),
                     [&](std::string_view macro) { return before.ends_with(macro); });
}

// What names lead to in the source: the kernels of ops, bare names of functions.
class Names {
 public:
  explicit Names(const std::vector<IndexContents::Op>& ops) {
    for (const auto& op : ops) {
      const std::string name = bare(op.name);
      ops_.emplace(name.substr(0, name.find('.')), &op);
    }
  }

  void add(std::string_view name, std::set<std::string>& wanted) const {
    std::string base = bare(name);
    base.resize(std::min(base.find('.'), base.size()));
    if (base.empty()) {
      return;
    }
    wanted.insert(base);
    const auto [first, last] = ops_.equal_range(base);
    for (auto at = first; at != last; ++at) {
      const IndexContents::Op& op = *at->second;
      if (op.facts.empty()) {
        continue;
      }
      const OpFacts facts = parse_op_facts(op.facts);
      for (const auto& kernel : facts.kernels) {
        const std::string function = bare(kernel.name);
        wanted.insert(function);
        constexpr std::string_view kStructured = "structured_";
        if (function.starts_with(kStructured)) {
          wanted.insert(function.substr(kStructured.size()));
        }
      }
      wanted.insert(base + "_stub");
    }
  }

  bool is_op(std::string_view base) const { return ops_.contains(std::string(base)); }

 private:
  std::multimap<std::string, const IndexContents::Op*> ops_;
};

// The innermost name and the namespace's first words of a key such as `_ZN2at6native3addERKNS_`.
std::pair<std::string, bool> name_in_at(std::string_view symbol) {
  if (!symbol.starts_with("_ZN2at")) {
    return {};
  }
  symbol.remove_prefix(std::string_view("_ZN").size());
  std::string last;
  bool is_op_class = false;
  while (!symbol.empty() && std::isdigit(static_cast<unsigned char>(symbol.front())) != 0) {
    std::size_t size = 0;
    while (!symbol.empty() && std::isdigit(static_cast<unsigned char>(symbol.front())) != 0) {
      size = size * 10 + static_cast<std::size_t>(symbol.front() - '0');
      symbol.remove_prefix(1);
    }
    std::string word(symbol.substr(0, size));
    symbol.remove_prefix(std::min(symbol.size(), size));
    if (last == "_ops") {
      return {word, true};
    }
    is_op_class = word == "_ops";
    last = std::move(word);
  }
  return {last, is_op_class};
}

class OnDemand {
 public:
  explicit OnDemand(TreeWork& work)
      : work_(work), ops_(work.ops()), names_(ops_), units_(work.units()) {
    std::ifstream known(work.folder().path() / kUnitsFile);
    for (std::string name; std::getline(known, name);) {
      chosen_.insert(name);
    }
  }

  IndexedOnDemand add(const std::vector<std::string>& names, const std::filesystem::path& path) {
    std::set<std::string> wanted;
    for (const auto& name : names) {
      names_.add(name, wanted);
    }
    IndexedOnDemand made{.index = path};
    IndexContents contents;
    std::size_t failed = 0;
    std::size_t units_left = kMostUnits;
    std::size_t callees_left = kMostUnitsOfCallees;
    std::set<std::string> seen = wanted;
    for (int level = 0; level < kMostLevels && !wanted.empty(); ++level) {
      std::vector<std::string> units = units_that_define(wanted);
      if (level == 0 && units.empty()) {
        return made;
      }
      std::size_t& left = level == 0 ? units_left : callees_left;
      units.resize(std::min(units.size(), left));
      left -= units.size();
      if (!units.empty()) {
        chosen_.insert(units.begin(), units.end());
        const ParsedUnits parsed = parse();
        made.parsed += parsed.parsed_now;
        made.units += units.size();
        failed = parsed.failed.size();
        contents = merge_findings(parsed.units);
      }
      std::set<std::string> next = callees(contents, wanted);
      std::erase_if(next, [&](const std::string& name) { return !seen.insert(name).second; });
      wanted = std::move(next);
    }
    std::string list;
    for (const auto& name : chosen_) {
      list += name + '\n';
    }
    write(std::move(contents), failed, path);
    OutputFile file(work_.folder().path() / kUnitsFile);
    file.write(list);
    file.commit();
    return made;
  }

  void write(IndexContents contents, std::size_t failed, const std::filesystem::path& path) const {
    work_.write(std::move(contents),
                {{"units", std::to_string(units_.size())},
                 {"units_failed", std::to_string(failed)},
                 {"partial", "yes"},
                 {"on_demand", work_.tree().folder.string()},
                 {"python", work_.python().python.string()}},
                path);
  }

 private:
  // Of those that the index does not hold; those that define the most names first.
  std::vector<std::string> units_that_define(const std::set<std::string>& names) {
    std::vector<std::pair<std::ptrdiff_t, std::string>> found;
    for (const auto& unit : units_) {
      if (chosen_.contains(unit.name) || !is_hand_written(unit)) {
        continue;
      }
      const std::string& text = text_of(unit);
      const auto count = std::count_if(
          names.begin(), names.end(), [&](const std::string& name) { return defines(text, name); });
      if (count > 0) {
        found.emplace_back(-count, unit.name);
      }
    }
    std::sort(found.begin(), found.end());
    std::vector<std::string> units;
    for (auto& [count, name] : found) {
      units.push_back(std::move(name));
    }
    return units;
  }

  // What the generators write names every op, and is large.
  static bool is_hand_written(const SourceUnit& unit) {
    return unit.name.find("/generated/") == std::string::npos && !unit.name.starts_with("build/");
  }

  const std::string& text_of(const SourceUnit& unit) {
    const auto [at, is_new] = texts_.try_emplace(unit.name);
    if (is_new) {
      at->second = file_text(unit.path);
    }
    return at->second;
  }

  ParsedUnits parse() const {
    std::vector<SourceUnit> units;
    std::copy_if(units_.begin(), units_.end(), std::back_inserter(units),
                 [&](const SourceUnit& unit) { return chosen_.contains(unit.name); });
    return work_.parse(units, {});
  }

  // What the wanted functions call in `at`; of an op, its kernels.
  std::set<std::string> callees(const IndexContents& contents,
                                const std::set<std::string>& wanted) const {
    std::set<std::string> found;
    for (const auto& function : contents.functions) {
      if (!wanted.contains(name_in_at(function.symbol).first)) {
        continue;
      }
      for (const auto& call : function.calls) {
        auto [name, is_op] = name_in_at(call.callee);
        // `at::convolution_symint` calls the op convolution (torchgen/api/types/signatures.py).
        constexpr std::string_view kSymInt = "_symint";
        if (name.ends_with(kSymInt)) {
          name.resize(name.size() - kSymInt.size());
        }
        if (!name.empty() && !wanted.contains(name) && (is_op || names_.is_op(name))) {
          names_.add(name, found);
        }
      }
    }
    return found;
  }

  TreeWork& work_;
  std::vector<IndexContents::Op> ops_;
  Names names_;
  std::vector<SourceUnit> units_;
  std::set<std::string> chosen_;
  std::map<std::string, std::string> texts_;
};

}  // namespace

bool defines(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at > 0 && is_word(text[at - 1])) || (end < text.size() && is_word(text[end]))) {
      continue;
    }
    if (is_in_defining_macro(text.substr(0, at))) {
      return true;
    }
    const std::size_t open = text.find_first_not_of(" \n", end);
    if (open == std::string_view::npos || text[open] != '(') {
      continue;
    }
    const std::size_t close = closing(text, open);
    if (close != std::string_view::npos && opens_body(text.substr(close + 1))) {
      return true;
    }
  }
  return false;
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
  // The smallest unit of each group, for the sake of its group's headers.
  std::vector<SourceUnit> units = work.units();
  std::stable_sort(units.begin(), units.end(), [](const auto& left, const auto& right) {
    return std::filesystem::file_size(left.path) < std::filesystem::file_size(right.path);
  });
  std::set<UnitGroup> groups;
  std::erase_if(units, [&](const SourceUnit& unit) { return !groups.insert(unit.group).second; });
  ParsedUnits parsed =
      work.parse(units, {.jobs = options.jobs, .worker_memory = options.worker_memory});
  std::error_code ignored;
  std::filesystem::remove(work.folder().path() / kUnitsFile, ignored);
  OnDemand(work).write(merge_findings(parsed.units), parsed.failed.size(), path);
  return {.path = path,
          .torch_version = work.tree().version,
          .units = units.size(),
          .parsed = parsed.parsed_now,
          .failed = std::move(parsed.failed)};
}

std::optional<IndexedOnDemand> index_on_demand(std::string_view torch_version,
                                               const std::vector<std::string>& names) {
  const std::string version(torch_version.substr(0, torch_version.find('+')));
  std::filesystem::path path;
  std::filesystem::path tree;
  std::filesystem::path python;
  for (const auto& candidate : list_indexes()) {
    try {
      const Index index = Index::open(candidate.path);
      if (candidate.own && index.torch_version() == version && !index.note("on_demand").empty()) {
        path = candidate.path;
        tree = std::filesystem::path(index.note("on_demand"));
        python = std::filesystem::path(index.note("python"));
        break;
      }
    } catch (const Error&) {
      continue;  // Who looks for an index says what is wrong with it.
    }
  }
  if (path.empty()) {
    return std::nullopt;
  }
  const InterruptGuard guard;
  ProgressReporter progress;
  TreeWork work(open_source_tree(tree), python, progress);
  work.prepare();
  return OnDemand(work).add(names, path);
}

}  // namespace optrace
