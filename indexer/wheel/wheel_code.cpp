#include "indexer/wheel/wheel_code.h"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <xxhash.h>

#include "platform/elf/module_symbols.h"
#include "platform/elf/source_anchors.h"
#include "platform/error.h"
#include "pytorch/installed/wheel_libraries.h"
#include "pytorch/source/source_files.h"
#include "pytorch/symbols/symbol_key.h"

namespace optrace {
namespace {

std::uint64_t hash(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

/// Returns an assertion's message without the file and line that it contains.
std::string_view without_place(std::string_view message) {
  return message.substr(0, message.find(" INTERNAL ASSERT FAILED at"));
}

std::uint32_t key_of(const SourceAnchor& anchor) {
  std::string text(anchor.function_name);
  text += '\n';
  text += without_place(anchor.message);
  return static_cast<std::uint32_t>(hash(text));
}

/// Returns the last component of a function's names (template_key), such as `conv2d`.
std::string_view last_name(std::string_view names) {
  if (!names.ends_with('E')) return {};
  names.remove_suffix(1);
  // A component is its length and its name, and a name does not start with a digit.
  for (std::size_t size = names.size(); size > 0; --size) {
    const std::string length = std::to_string(size);
    if (names.size() >= size + length.size() &&
        names.substr(names.size() - size - length.size(), length.size()) == length)
      return names.substr(names.size() - size);
  }
  return {};
}

}  // namespace

bool WheelCode::contains(std::string_view key) const {
  return keys_.contains(hash(key));
}

const std::vector<std::string>* WheelCode::named(const std::string& names) const {
  const auto found = by_names_.find(names);
  return found == by_names_.end() ? nullptr : &found->second;
}

std::vector<IndexedAnchor> WheelCode::places() const {
  std::vector<IndexedAnchor> places;
  places.reserve(anchors_.size());
  for (const WheelAnchor& anchor : anchors_) places.push_back(anchor.place);
  const auto repeated = std::ranges::unique(places);
  places.erase(repeated.begin(), repeated.end());
  return places;
}

WheelCode WheelCode::read(const std::filesystem::path& torch_folder) {
  WheelCode code;
  std::map<std::string, AnchoredFunction> anchored;
  for (const std::string_view name : kTorchLibraries) {
    const auto path = torch_folder / "lib" / name;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    const ModuleSymbols module(path);
    if (module.stripped())
      throw Error(ExitStatus::usage, fmt::format("{} has no symbol table", path.string()),
                  "An index can be made from a wheel whose libraries are not stripped, such as "
                  "those on PyPI. `optrace source fetch` indexes the source instead.");
    module.for_each_name([&](std::uint64_t, std::string_view symbol) {
      const std::string key = function_key(symbol);
      if (!code.keys_.insert(hash(key)).second) return;
      // A key that consists of names only stands for all instances of a template.
      const auto names = template_key(key);
      if (names && *names != key) code.by_names_[*names].push_back(key);
    });
    for (const SourceAnchor& anchor : find_anchors(module)) {
      std::string file(path_in_tree(anchor.file));
      if (file.empty()) continue;
      const auto function = module.find_piece(anchor.function);
      const std::string symbol = function ? function_key(function->symbol) : std::string();
      const auto names = template_key(symbol);
      if (names && !anchor.function_name.empty() && last_name(*names) == anchor.function_name) {
        const auto [at, added] =
            anchored.try_emplace(symbol, AnchoredFunction{symbol, file, anchor.line});
        if (!added && at->second.file == file)
          at->second.first_line = std::min(at->second.first_line, anchor.line);
      }
      code.anchors_.push_back({{std::move(file), anchor.line, key_of(anchor)},
                               std::string(without_place(anchor.message))});
    }
  }
  if (code.keys_.empty())
    throw Error(ExitStatus::usage,
                fmt::format("{} has none of PyTorch's libraries", (torch_folder / "lib").string()),
                "Name a Python that has a torch wheel with --python.");
  for (auto& [symbol, function] : anchored) code.anchored_.push_back(std::move(function));
  std::ranges::sort(code.anchors_);
  const auto repeated = std::ranges::unique(code.anchors_);
  code.anchors_.erase(repeated.begin(), repeated.end());
  return code;
}

}  // namespace optrace
