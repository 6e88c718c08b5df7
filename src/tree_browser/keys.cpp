#include "src/tree_browser/keys.h"

#include <algorithm>

#include "present/terminal_text.h"

namespace optrace {
namespace {

Key letter(wchar_t character) {
  return {.character = character};
}

Key control(char character) {
  return {.character = static_cast<wchar_t>(character & 0x1F)};
}

std::vector<KeyBinding> make_bindings() {
  using enum Action;
  std::vector<Key> digits;
  for (wchar_t digit = L'1'; digit <= L'9'; ++digit) digits.push_back(letter(digit));
  return {
      {down, "Down, j", "the next row", {{SpecialKey::down}, letter('j'), control('N')}},
      {up, "Up, k", "the previous row", {{SpecialKey::up}, letter('k'), control('P')}},
      {page_down, "PageDown, Ctrl-F", "a page down", {{SpecialKey::page_down}, control('F')}},
      {page_up, "PageUp, Ctrl-B", "a page up", {{SpecialKey::page_up}, control('B')}},
      {first, "Home, g", "the first row", {{SpecialKey::home}, letter('g')}},
      {last, "End, G", "the last row", {{SpecialKey::end}, letter('G')}},
      {unfold, "Right, l", "unfold, or go to the next row", {{SpecialKey::right}, letter('l')}},
      {fold, "Left, h", "fold, or go to the caller", {{SpecialKey::left}, letter('h')}},
      {toggle, "Space", "fold or unfold", {letter(' ')}},
      {unfold_all, "*", "unfold everything below", {letter('*')}},
      {fold_all, "-", "fold everything below", {letter('-')}},
      {details, "Enter", "all details of the frame", {{SpecialKey::enter}}},
      {detail_panel, "d", "show or hide the panel with details", {letter('d')}},
      {search, "/", "search; Ctrl-R there: as a regular expression", {letter('/')}},
      {next_match, "n", "the next match", {letter('n')}},
      {previous_match, "N", "the previous match", {letter('N')}},
      {switch_layer, "1 to 9", "show or hide a layer", digits},
      {all_layers, "0", "show all layers", {letter('0')}},
      {user_code, "o", "only code of the program, and the ops it calls", {letter('o')}},
      {order, "t", "calls by time, or in call order", {letter('t')}},
      {editor, "e", "open the source in $VISUAL or $EDITOR", {letter('e')}},
      {program_editor, "E", "open the line of the program that leads to it", {letter('E')}},
      {help, "?", "this help", {letter('?')}},
      {redraw, "Ctrl-L", "draw the screen again", {control('L')}},
      {quit, "q", "quit", {letter('q')}},
      {resized, "", "", {{SpecialKey::resized}}},
  };
}

}  // namespace

std::span<const KeyBinding> key_bindings() {
  static const std::vector<KeyBinding> bindings = make_bindings();
  return bindings;
}

const KeyBinding* binding_of(const Key& key) {
  for (const KeyBinding& binding : key_bindings())
    if (std::ranges::find(binding.codes, key) != binding.codes.end()) return &binding;
  return nullptr;
}

std::vector<std::string> key_help() {
  std::vector<std::string> lines;
  for (const KeyBinding& binding : key_bindings())
    if (!binding.keys.empty())
      lines.push_back(padded(binding.keys, kKeyColumns) + std::string(binding.what));
  return lines;
}

}  // namespace optrace
