#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "src/tree_browser/screen_text.h"

namespace optrace {

/// Keys that are not characters.
enum class SpecialKey : std::uint8_t {
  none,
  up,
  down,
  left,
  right,
  page_up,
  page_down,
  home,
  end,
  enter,
  backspace,
  escape,
  resized,  ///< The terminal has another size.
  other,
};

/// A key that was pressed.
struct Key {
  SpecialKey special = SpecialKey::none;
  wchar_t character = 0;  ///< If it is not a special one.

  bool operator==(const Key&) const = default;
};

/// How text is shown. Without colours, the differences that matter remain.
struct TextLook {
  bool bold = false;
  bool dim = false;
  bool reverse = false;
  bool underline = false;
  std::uint8_t colour = 0;  ///< 1 to 7 as in SGR 31 to 37; 0: the terminal's own.

  /// Reads an SGR code, such as `1;31`.
  static TextLook of_sgr(std::string_view sgr);
};

/// The terminal's screen, in ncurses. The destructor restores what the terminal showed, and its
/// settings. At most one at a time.
class Screen {
 public:
  /// Throws Error(usage) if standard input or output is not a terminal, or if $TERM is unknown or
  /// can't be drawn on.
  explicit Screen(bool colour);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  std::size_t height() const;
  std::size_t width() const;

  /// Starts a new picture.
  void clear();
  /// Writes text from a column on, at most `limit` columns. Returns the columns written.
  std::size_t put(std::size_t row, std::size_t column, std::string_view text, std::size_t limit,
                  const TextLook& look);
  /// Fills a row with a look.
  void fill(std::size_t row, const TextLook& look);
  /// Shows the picture; with a cursor at `column` of `row` if one is given.
  void show();
  void show(std::size_t row, std::size_t column);
  /// Draws everything again at the next show().
  void redraw();

  /// Waits for a key. Throws Error(interrupted) after a signal, if an InterruptGuard lives, and
  /// when the terminal is gone.
  Key read_key();

  /// Gives the terminal back during its lifetime, for another program.
  class Suspension {
   public:
    Suspension();
    ~Suspension();
    Suspension(const Suspension&) = delete;
    Suspension& operator=(const Suspension&) = delete;
  };

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Throws Error(usage) if standard input or output is not a terminal.
void require_terminal();

}  // namespace optrace
