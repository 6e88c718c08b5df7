#include "report/lines/line_layout.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/core.h>

#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// SGR codes in the order of Layer.
constexpr std::array<std::string_view, kLayers> kLayerColours = {
    kCyan, kMagenta, kYellow, kGreen, kBold, kRed, "1;31", kDim, kBlue};

// Limits of the aligned columns; longer texts run over them. Without limits, one long name would
// add as many spaces to every line.
constexpr std::size_t kMaxNameLength = 56;
constexpr std::size_t kMaxLocationLength = 120;
constexpr std::size_t kMinNameWidth = 24;
constexpr std::size_t kMinLocationWidth = 20;

// Shortens a location to `width` columns by leaving out folders in its middle:
// `torch/csrc/autograd/…/python_torch_functions_2.cpp:7`.
std::string shorten_location(const std::string& location, std::size_t width) {
  if (columns(location) <= width) return location;
  const std::size_t name = location.rfind('/');
  if (name == std::string::npos) return shorten_middle(location, width);
  std::string_view front = std::string_view(location).substr(0, name);
  const std::string_view back = std::string_view(location).substr(name);
  while (true) {
    const std::size_t slash = front.rfind('/');
    if (slash == std::string_view::npos) break;
    front = front.substr(0, slash);
    std::string shortened = fmt::format("{}/…{}", front, back);
    if (columns(shortened) <= width) return shortened;
  }
  std::string shortened = fmt::format("…{}", back);
  if (columns(shortened) > width) shortened = shorten_middle(shortened, width);
  return shortened;
}

// Writes lines in aligned columns.
class LineWriter {
 public:
  LineWriter(const TerminalStyle& style, std::size_t width, OutputSink& sink)
      : style_(style), width_(width), sink_(sink) {}

  void write(const std::vector<FrameLine>& lines) {
    const Columns fit = fit_columns(lines);
    for (const FrameLine& it : lines) write(it, fit);
  }

 private:
  std::string paint(std::string_view text, std::string_view sgr) const {
    return style_.paint(text, sgr);
  }
  void line(std::string_view content) {
    sink_.write(content);
    sink_.write("\n");
  }

  // The columns in which the texts after the names start. If `shorten` is true, names and locations
  // are shortened to fit.
  struct Columns {
    std::size_t name = 0;
    std::size_t location = 0;
    bool shorten = false;
  };

  Columns fit_columns(const std::vector<FrameLine>& lines) const {
    Columns fit;
    std::size_t call = 0;
    for (const FrameLine& it : lines) {
      if (!ends_with_name(it))
        fit.name =
            std::max(fit.name, columns(it.branch) + std::min(name_columns(it), kMaxNameLength));
      fit.location = std::max(fit.location, std::min(columns(it.location), kMaxLocationLength));
      const std::size_t times = it.times.empty() ? 0 : columns(it.times) + 2;
      call = std::max(call, columns(it.call) + times);
    }
    if (width_ != 0) {
      fit.shorten = true;
      const std::size_t fixed = kLabelColumns + call + 4;
      const std::size_t room = width_ > fixed ? width_ - fixed : 0;
      // Shorten paths before names: a path's last part is the most informative one.
      if (fit.name + fit.location > room) {
        const std::size_t left = room > fit.name ? room - fit.name : 0;
        fit.location = std::min(fit.location, std::max({left, room * 2 / 5, kMinLocationWidth}));
        fit.name = std::min(fit.name,
                            std::max(room > fit.location ? room - fit.location : 0, kMinNameWidth));
      }
    }
    return fit;
  }

  // Returns true if nothing follows the name in this row, so that it may exceed its column.
  static bool ends_with_name(const FrameLine& it) {
    return it.location.empty() && it.call.empty() && it.times.empty();
  }

  // Returns the columns available for a row's branch, name and note.
  std::size_t name_room(const FrameLine& it, const Columns& fit) const {
    if (ends_with_name(it)) return std::max(width_, kLabelColumns) - kLabelColumns;
    return it.location.empty() ? fit.name + 2 + fit.location : fit.name;
  }

  static std::size_t name_columns(const FrameLine& it) {
    return columns(it.name) + (it.note.empty() ? 0 : columns(it.note) + 2);
  }

  void write(const FrameLine& it, const Columns& fit) {
    const std::string_view colour = layer_colour(it.layer);
    std::string row = it.divider ? std::string(kLabelColumns, ' ')
                                 : paint(padded(name_of(it.layer), kLabelColumns), colour);
    row += paint(it.branch, kDim);
    std::string name = it.name;
    std::string note = it.note;
    std::string location = it.location;
    if (fit.shorten) {
      const std::size_t branch = columns(it.branch);
      const std::size_t whole = name_room(it, fit);
      const std::size_t room = whole > branch + kMinNameWidth ? whole - branch : kMinNameWidth;
      // A note may take the columns that the name leaves, and at least a third.
      const std::size_t for_note =
          note.empty() ? 0
                       : std::min(columns(note) + 2,
                                  std::max(room / 3, room - std::min(room, columns(name))));
      name = shorten_middle(name, room - for_note);
      note = shorten_middle(note, for_note > 2 ? for_note - 2 : 0);
      location = shorten_location(location, fit.location);
    }
    row += paint(name, it.divider ? kDim : colour);
    if (!note.empty()) row += "  " + paint(note, kDim);
    std::size_t taken = columns(it.branch) + columns(name) + (note.empty() ? 0 : columns(note) + 2);
    const auto align = [&](std::size_t width) {
      row.append(taken < width ? width - taken : 0, ' ');
      row += "  ";
    };
    if (!location.empty()) {
      align(fit.name);
      row += style_.link(location, it.definition);
      taken = columns(location);
    } else if (!ends_with_name(it)) {
      const std::size_t behind_name = fit.name + 2;
      if (taken < behind_name) align(fit.name);
      taken = taken < behind_name ? 0 : taken - behind_name;
    }
    if (!it.call.empty() || !it.times.empty()) {
      align(fit.location);
      row += style_.link(paint(it.call, kDim), it.call_site);
      if (!it.times.empty()) {
        if (!it.call.empty()) row += "  ";
        row += paint(it.times, kBold);
      }
    }
    line(row);
    if (!it.why.empty()) below(it, it.why);
    for (const std::string& backend : it.backends) below(it, backend);
    for (const std::string& tensor : it.tensors) below(it, tensor);
  }

  void below(const FrameLine& it, const std::string& text) {
    line(fmt::format("{}{}{}", std::string(kLabelColumns, ' '), paint(it.below, kDim),
                     paint("↳ " + text, kDim)));
  }

  const TerminalStyle& style_;
  const std::size_t width_;
  OutputSink& sink_;
};

}  // namespace

std::string_view layer_colour(Layer layer) {
  return kLayerColours[static_cast<std::size_t>(layer)];
}

void lay_out(const std::vector<FrameLine>& lines, const TerminalStyle& style, std::size_t width,
             OutputSink& sink) {
  LineWriter(style, width, sink).write(lines);
}

}  // namespace optrace
