#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/tree_browser/screen.h"

namespace optrace {

/// What a key does in the tree.
enum class Action : std::uint8_t {
  down,
  up,
  page_down,
  page_up,
  first,
  last,
  unfold,
  fold,
  toggle,
  unfold_all,
  fold_all,
  details,
  detail_panel,
  search,
  next_match,
  previous_match,
  switch_layer,
  all_layers,
  user_code,
  order,
  editor,
  program_editor,
  help,
  redraw,
  resized,
  quit,
};

/// An action with its keys. This table is also the help.
struct KeyBinding {
  Action action;
  std::string_view keys;  ///< As in the help; empty: not for the user.
  std::string_view what;
  std::vector<Key> codes;
};

/// Returns all bindings, in the order of the help.
std::span<const KeyBinding> key_bindings();

/// Returns the binding of a key; null if it has none.
const KeyBinding* binding_of(const Key& key);

inline constexpr std::size_t kKeyColumns = 22;  ///< Of the keys in key_help().

/// Returns the lines of the help.
std::vector<std::string> key_help();

}  // namespace optrace
