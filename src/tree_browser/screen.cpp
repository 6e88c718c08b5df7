#include "src/tree_browser/screen.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <clocale>
#include <cstdlib>
#include <string>

// Without this, names such as `clear` are macros.
#define NCURSES_NOMACROS
#include <curses.h>
#include <fmt/core.h>
#include <poll.h>
#include <term.h>
#include <unistd.h>
// These are macros all the same.
#undef columns
#undef lines

#include "platform/error.h"
#include "platform/process/interrupt.h"
#include "platform/text/printable_text.h"

namespace optrace {
namespace {

constexpr int kEscapeDelay = 50;     // Milliseconds in which the rest of a key's sequence arrives.
constexpr int kPollInterval = 1000;  // Milliseconds between looks for a signal.

struct CodedKey {
  wint_t code;
  SpecialKey key;
};

constexpr auto kFunctionKeys = std::to_array<CodedKey>({
    {KEY_UP, SpecialKey::up},
    {KEY_DOWN, SpecialKey::down},
    {KEY_LEFT, SpecialKey::left},
    {KEY_RIGHT, SpecialKey::right},
    {KEY_PPAGE, SpecialKey::page_up},
    {KEY_NPAGE, SpecialKey::page_down},
    {KEY_HOME, SpecialKey::home},
    {KEY_END, SpecialKey::end},
    {KEY_ENTER, SpecialKey::enter},
    {KEY_BACKSPACE, SpecialKey::backspace},
    {KEY_RESIZE, SpecialKey::resized},
});

constexpr auto kCharacterKeys = std::to_array<CodedKey>({
    {L'\n', SpecialKey::enter},
    {L'\r', SpecialKey::enter},
    {0x7F, SpecialKey::backspace},
    {0x08, SpecialKey::backspace},
    {0x1B, SpecialKey::escape},
});

struct KeySequence {
  const char* sequence;
  int code;
};

// What terminals send that don't send what their description says.
constexpr auto kSequences = std::to_array<KeySequence>({
    {"\x1b[A", KEY_UP},
    {"\x1b[B", KEY_DOWN},
    {"\x1b[C", KEY_RIGHT},
    {"\x1b[D", KEY_LEFT},
    {"\x1bOA", KEY_UP},
    {"\x1bOB", KEY_DOWN},
    {"\x1bOC", KEY_RIGHT},
    {"\x1bOD", KEY_LEFT},
    {"\x1b[H", KEY_HOME},
    {"\x1b[F", KEY_END},
    {"\x1bOH", KEY_HOME},
    {"\x1bOF", KEY_END},
    {"\x1b[1~", KEY_HOME},
    {"\x1b[4~", KEY_END},
    {"\x1b[5~", KEY_PPAGE},
    {"\x1b[6~", KEY_NPAGE},
});

template <class Table>
SpecialKey find_key(const Table& table, wint_t code, SpecialKey otherwise) {
  const auto* const found = std::ranges::find(table, code, &CodedKey::code);
  return found == table.end() ? otherwise : found->key;
}

attr_t attributes_of(const TextLook& look) {
  return (look.bold ? A_BOLD : A_NORMAL) | (look.dim ? A_DIM : A_NORMAL) |
         (look.reverse ? A_REVERSE : A_NORMAL) | (look.underline ? A_UNDERLINE : A_NORMAL);
}

/// Throws Error(usage) for a terminal that curses can't draw on. Curses itself would write a
/// message and end the process.
void require_known_terminal() {
  const char* const term = std::getenv("TERM");
  const std::string name = printable(term == nullptr ? "" : term);
  constexpr const char* kRemedy =
      "Set TERM to your terminal's type, such as xterm-256color, or leave out -i.";
  int error = 0;
  if (name.empty() || ::setupterm(nullptr, STDOUT_FILENO, &error) != 0)
    throw Error(ExitStatus::usage,
                name.empty() ? "the terminal's type is unknown: TERM is not set"
                             : fmt::format("the terminal's type is unknown: TERM is '{}'", name),
                kRemedy);
  if (cursor_address == nullptr || clear_screen == nullptr)
    throw Error(ExitStatus::usage,
                fmt::format("nothing can be drawn on a terminal of the type '{}' (TERM)", name),
                kRemedy);
}

}  // namespace

TextLook TextLook::of_sgr(std::string_view sgr) {
  TextLook look;
  while (!sgr.empty()) {
    int code = 0;
    const auto [end, error] = std::from_chars(sgr.data(), sgr.data() + sgr.size(), code);
    if (error != std::errc()) break;
    look.bold = look.bold || code == 1;
    look.dim = look.dim || code == 2;
    if (code > 30 && code < 38) look.colour = static_cast<std::uint8_t>(code - 30);
    sgr.remove_prefix(std::min(sgr.size(), static_cast<std::size_t>(end - sgr.data()) + 1));
  }
  return look;
}

void require_terminal() {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) return;
  throw Error(ExitStatus::usage,
              fmt::format("-i needs a terminal, and standard {} is not one",
                          ::isatty(STDIN_FILENO) == 1 ? "output" : "input"),
              "Leave out -i to print the report.");
}

struct Screen::State {
  SCREEN* terminal = nullptr;
  bool colour = false;
  CharacterSet characters = CharacterSet::ascii;
};

Screen::Screen(bool colour) : state_(std::make_unique<State>()) {
  require_terminal();
  std::setlocale(LC_CTYPE, "");
  state_->characters = locale_characters();
  require_known_terminal();
  state_->terminal = ::newterm(nullptr, stdout, stdin);
  if (state_->terminal == nullptr)
    throw Error(ExitStatus::failed, "the terminal can't be set up", "Leave out -i.");
  ::set_escdelay(kEscapeDelay);
  ::cbreak();
  ::noecho();
  ::nonl();
  ::intrflush(stdscr, FALSE);
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  for (const KeySequence& one : kSequences)
    if (::key_defined(one.sequence) == 0) ::define_key(one.sequence, one.code);
  ::curs_set(0);
  state_->colour = colour && ::has_colors();
  if (!state_->colour) return;
  ::start_color();
  ::use_default_colors();
  for (short colour_number = 1; colour_number < 8; ++colour_number)
    ::init_pair(colour_number, colour_number, -1);
}

Screen::~Screen() {
  ::endwin();
  ::delscreen(state_->terminal);
}

std::size_t Screen::height() const {
  return static_cast<std::size_t>(std::max(getmaxy(stdscr), 0));
}

std::size_t Screen::width() const {
  return static_cast<std::size_t>(std::max(getmaxx(stdscr), 0));
}

void Screen::clear() {
  ::werase(stdscr);
}

std::size_t Screen::put(std::size_t row, std::size_t column, std::string_view text,
                        std::size_t limit, const TextLook& look) {
  if (row >= height() || column >= width()) return 0;
  const ScreenText shown = screen_text(text, std::min(limit, width() - column), state_->characters);
  const auto pair = static_cast<short>(state_->colour ? look.colour : 0);
  ::wattr_set(stdscr, attributes_of(look), pair, nullptr);
  ::mvwaddwstr(stdscr, static_cast<int>(row), static_cast<int>(column), shown.text.c_str());
  ::wattr_set(stdscr, A_NORMAL, 0, nullptr);
  return shown.columns;
}

void Screen::fill(std::size_t row, const TextLook& look) {
  ::mvwchgat(stdscr, static_cast<int>(row), 0, -1, attributes_of(look),
             static_cast<short>(state_->colour ? look.colour : 0), nullptr);
}

void Screen::show() {
  ::curs_set(0);
  ::wrefresh(stdscr);
}

void Screen::show(std::size_t row, std::size_t column) {
  ::wmove(stdscr, static_cast<int>(row), static_cast<int>(std::min(column, width() - 1)));
  ::curs_set(1);
  ::wrefresh(stdscr);
}

void Screen::redraw() {
  ::clearok(stdscr, TRUE);
}

Key Screen::read_key() {
  while (true) {
    InterruptGuard::throw_if_interrupted();
    wint_t code = 0;
    const int kind = ::wget_wch(stdscr, &code);
    if (kind == KEY_CODE_YES) return {find_key(kFunctionKeys, code, SpecialKey::other)};
    if (kind != ERR) {
      const SpecialKey special = find_key(kCharacterKeys, code, SpecialKey::none);
      return {special, special == SpecialKey::none ? static_cast<wchar_t>(code) : L'\0'};
    }
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&input, 1, kPollInterval);
    if (ready > 0 && (input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0)
      throw Error(ExitStatus::interrupted, "the terminal is gone", "");
  }
}

Screen::Suspension::Suspension() {
  ::def_prog_mode();
  ::endwin();
}

Screen::Suspension::~Suspension() {
  ::reset_prog_mode();
  ::clearok(stdscr, TRUE);
  ::wrefresh(stdscr);
}

}  // namespace optrace
