#include "src/tree_browser/tree_browser.h"

#include <cwchar>
#include <filesystem>
#include <optional>
#include <string>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/process/interrupt.h"
#include "platform/text/printable_text.h"
#include "src/terminal/editor.h"
#include "src/tree_browser/keys.h"
#include "src/tree_browser/screen.h"
#include "src/tree_browser/text_page.h"
#include "src/tree_browser/tree_model.h"
#include "src/tree_browser/tree_view.h"

namespace optrace {
namespace {

void append_utf8(std::string& text, wchar_t character) {
  const auto c = static_cast<std::uint32_t>(static_cast<wint_t>(character));
  const auto add = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0U | (c >> 6U));
    add(0x80U | (c & 0x3FU));
  } else if (c < 0x10000) {
    add(0xE0U | (c >> 12U));
    add(0x80U | ((c >> 6U) & 0x3FU));
    add(0x80U | (c & 0x3FU));
  } else {
    add(0xF0U | (c >> 18U));
    add(0x80U | ((c >> 12U) & 0x3FU));
    add(0x80U | ((c >> 6U) & 0x3FU));
    add(0x80U | (c & 0x3FU));
  }
}

void remove_character(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U)
    text.pop_back();
  if (!text.empty()) text.pop_back();
}

class Browser {
 public:
  Browser(const Report& report, const TreeBrowserOptions& options)
      : report_(report),
        options_(options),
        model_(report),
        screen_(options.colour),
        view_(report, model_, screen_) {}

  void run() {
    while (!done_) {
      view_.draw(message_, search_ ? &*search_ : nullptr, nullptr);
      const Key key = screen_.read_key();
      message_.clear();
      if (const KeyBinding* const binding = binding_of(key))
        act(binding->action, key);
      else if (key.special != SpecialKey::escape)
        message_ = "This key does nothing. ? shows the keys.";
    }
  }

 private:
  void act(Action action, const Key& key) {
    switch (action) {
      case Action::down:
        return model_.select(model_.selected() + 1);
      case Action::up:
        return model_.select(before(1));
      case Action::page_down:
        return model_.select(model_.selected() + view_.page());
      case Action::page_up:
        return model_.select(before(view_.page()));
      case Action::first:
        return model_.select(0);
      case Action::last:
        return model_.select(model_.rows().size());
      case Action::unfold:
        return unfold_or_go_on();
      case Action::fold:
        return fold_or_go_up();
      case Action::toggle:
        return is_open() ? model_.fold() : model_.unfold();
      case Action::unfold_all:
        return model_.set_all_below(true);
      case Action::fold_all:
        return model_.set_all_below(false);
      case Action::details:
        return show_page(screen_, "Details of the frame", detail_lines(report_, model_),
                         kDetailColumns);
      case Action::detail_panel:
        return view_.toggle_panel();
      case Action::search:
        return ask_for_search();
      case Action::next_match:
        return find(true);
      case Action::previous_match:
        return find(false);
      case Action::switch_layer:
        return switch_layer(static_cast<Layer>(key.character - L'1'));
      case Action::all_layers:
        return model_.show_all_layers();
      case Action::user_code:
        return model_.set_user_code_only(!model_.user_code_only());
      case Action::order:
        return model_.set_order(model_.frames().order() == ChildOrder::call ? ChildOrder::time
                                                                            : ChildOrder::call);
      case Action::editor:
        return edit_source();
      case Action::program_editor:
        return edit_program();
      case Action::help:
        return show_page(screen_, "Keys", help(), kKeyColumns);
      case Action::redraw:
        return screen_.redraw();
      case Action::resized:
        return;
      case Action::quit:
        done_ = true;
    }
  }

  std::size_t before(std::size_t rows) const {
    return model_.selected() - std::min(model_.selected(), rows);
  }

  bool is_open() const {
    const FrameNumber frame = model_.selected_frame();
    return frame != kNoFrame && model_.can_unfold(frame) && model_.is_open(frame);
  }

  void unfold_or_go_on() {
    if (is_open())
      model_.select(model_.selected() + 1);
    else
      model_.unfold();
  }

  void fold_or_go_up() {
    if (is_open())
      model_.fold();
    else
      model_.select_caller();
  }

  void switch_layer(Layer layer) {
    model_.show(layer, !model_.shows(layer));
    message_ =
        fmt::format("{} frames are {}", name_of(layer), model_.shows(layer) ? "shown" : "hidden");
  }

  static std::vector<std::string> help() {
    std::vector<std::string> lines = key_help();
    std::string layers = "The layers:";
    for (std::size_t i = 0; i < kLayers; ++i)
      layers += fmt::format(" {} {}", i + 1, name_of(static_cast<Layer>(i)));
    lines.insert(lines.end(),
                 {"", layers, "",
                  "Each frame is called by the one above it. The calls of a frame that makes "
                  "several are indented."});
    return lines;
  }

  void ask_for_search() {
    Prompt prompt;
    bool regex = false;
    while (true) {
      prompt.label = regex ? "Search (regular expression): " : "Search: ";
      view_.draw(message_, nullptr, &prompt);
      const Key key = screen_.read_key();
      if (key.special == SpecialKey::escape) return;
      if (key.special == SpecialKey::enter) break;
      if (key.special == SpecialKey::backspace && prompt.text.empty()) return;
      if (key.special == SpecialKey::backspace) remove_character(prompt.text);
      if (key.character == (L'R' & 0x1F)) regex = !regex;
      if (key.character >= L' ') append_utf8(prompt.text, key.character);
    }
    if (prompt.text.empty()) return search_.reset();
    try {
      search_.emplace(prompt.text, regex);
    } catch (const Error& error) {
      message_ = error.what();
      return;
    }
    find(true);
  }

  void find(bool forwards) {
    if (!search_)
      message_ = "Nothing to search for yet; / asks for it.";
    else if (!model_.find(*search_, forwards))
      message_ = fmt::format("No frame that is shown matches '{}'.", printable(search_->pattern()));
  }

  void edit_source() {
    const FrameNumber number = model_.selected_frame();
    if (number == kNoFrame) return;
    const Shared<FrameSource>& source = model_.frames().frame(number).source;
    if (source && !source->file.empty())
      edit({.file = source->file, .line = source->line, .url = source->url});
    else
      message_ = "The source file of this frame is unknown.";
  }

  void edit_program() {
    const FrameNumber number = model_.selected_frame();
    if (number == kNoFrame) return;
    if (const std::optional<FilePlace> place = model_.frames().program_line(number))
      edit(*place);
    else
      message_ = "No line of the program is known to lead to this frame.";
  }

  void edit(const FilePlace& place) {
    const std::filesystem::path file = options_.find ? options_.find(place.file) : "";
    if (file.empty()) {
      message_ = fmt::format("{} is not on this machine.{}", printable(place.file),
                             place.url.empty() ? "" : " It is at " + printable(place.url));
      return;
    }
    try {
      const Screen::Suspension suspension;
      open_in_editor(file, place.line);
    } catch (const Error& error) {
      message_ = fmt::format("{}. {}", error.what(), error.remedy());
    }
  }

  const Report& report_;
  const TreeBrowserOptions& options_;
  TreeModel model_;
  Screen screen_;
  TreeView view_;
  std::optional<FrameSearch> search_;
  std::string message_;
  bool done_ = false;
};

}  // namespace

void browse_tree(const Report& report, const TreeBrowserOptions& options) {
  const InterruptGuard guard;  // The terminal is restored first.
  Browser(report, options).run();
}

}  // namespace optrace
