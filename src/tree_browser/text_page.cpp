#include "src/tree_browser/text_page.h"

#include <algorithm>

#include "src/tree_browser/keys.h"

namespace optrace {
namespace {

std::vector<std::string> wrapped(const std::vector<std::string>& lines, std::size_t width,
                                 std::size_t indent) {
  std::vector<std::string> rows;
  for (const std::string& line : lines)
    for (std::string& row : wrapped_line(line, width, indent)) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

std::vector<std::string> wrapped_line(const std::string& line, std::size_t width,
                                      std::size_t indent) {
  const std::size_t margin = indent * 2 < width ? indent : 0;
  std::vector<std::string> rows(1);
  std::size_t taken = 0;
  for (const char c : line) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    if (begins && taken == std::max<std::size_t>(width, 1)) {
      rows.emplace_back(margin, ' ');
      taken = margin;
    }
    taken += begins ? 1 : 0;
    rows.back() += c;
  }
  return rows;
}

void show_page(Screen& screen, const std::string& title, const std::vector<std::string>& lines,
               std::size_t indent) {
  std::size_t top = 0;
  while (true) {
    const std::vector<std::string> rows = wrapped(lines, screen.width(), indent);
    const std::size_t page = screen.height() > 2 ? screen.height() - 2 : 1;
    const std::size_t last = rows.size() > page ? rows.size() - page : 0;
    top = std::min(top, last);
    screen.clear();
    screen.put(0, 0, std::string(screen.width(), ' '), screen.width(), kTitleLook);
    screen.put(0, 0, title, screen.width(), kTitleLook);
    for (std::size_t i = 0; i < page && top + i < rows.size(); ++i)
      screen.put(1 + i, 0, rows[top + i], screen.width(), {});
    screen.put(screen.height() - 1, 0, top < last ? "q back  PageDown more" : "q back",
               screen.width(), {.dim = true});
    screen.show();
    const Key key = screen.read_key();
    const KeyBinding* const binding = binding_of(key);
    if (key.special == SpecialKey::escape) return;
    if (binding == nullptr) continue;
    switch (binding->action) {
      case Action::down:
        ++top;
        break;
      case Action::up:
        top -= top == 0 ? 0 : 1;
        break;
      case Action::page_down:
      case Action::toggle:
        top += page;
        break;
      case Action::page_up:
        top -= std::min(top, page);
        break;
      case Action::first:
        top = 0;
        break;
      case Action::last:
        top = last;
        break;
      case Action::redraw:
        screen.redraw();
        break;
      case Action::resized:
        break;
      default:  // As all that has no use here, q, ? and Enter leave.
        return;
    }
  }
}

}  // namespace optrace
