#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lookup/locate/locate_output.h"
#include "lookup/source_text/highlighted_source.h"
#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "present/line_text.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

constexpr std::size_t kIndent = 2;         // Columns per level.
constexpr std::size_t kMaxNameWidth = 96;  // Used if the width is unlimited.
constexpr std::size_t kMinNameWidth = 24;

struct Row {
  std::size_t level = 0;
  std::string label;
  std::string name;
  std::string location;
  std::string remark;  ///< Shown behind the location.
  FilePlace place;
};

// Returns a kernel's keys (`CPU, CUDA`), a part's role (`called from`), or an answer's kind.
std::string label_of(const Located& located) {
  if (!located.key.empty() && located.role == "registered for")
    return fmt::format("registered for {} of", located.key);
  if (!located.key.empty()) return located.key;
  if (!located.role.empty()) return located.role;
  return std::string(name_of(located.kind));
}

std::string display_name(const Located& located) {
  return located.symbol.empty() ? located.name : short_name(located.name);
}

// Shortens parameters to those parts that distinguish overloads: `(Tensor, optional<Tensor>,
// long)`.
std::string brief(std::string parameters) {
  for (const std::string_view said : {"at::", "c10::", "std::", "torch::", " const", "&"})
    for (std::size_t at = parameters.find(said); at != std::string::npos;
         at = parameters.find(said, at))
      parameters.erase(at, said.size());
  return parameters;
}

class TextWriter {
 public:
  TextWriter(const IndexedSource& source, const LocateTextOptions& options)
      : source_(source), options_(options) {}

  std::string write(const LocateResult& result) {
    std::map<std::string, int> names;
    for (const Located& answer : result.answers) ++names[display_name(answer)];
    for (const Located& answer : result.answers)
      add(answer, 0, names[display_name(answer)] > 1 && !answer.parameters.empty());
    std::string text = lines();
    if (result.total > result.answers.size()) {
      text += options_.style.paint(
          fmt::format("{} more; --all shows them", result.total - result.answers.size()), kDim);
      text += '\n';
    }
    return text;
  }

 private:
  void add(const Located& located, std::size_t level, bool with_parameters) {
    Row row;
    row.level = level;
    row.label = printable(label_of(located));
    row.name =
        printable(display_name(located) + (with_parameters ? brief(located.parameters) : ""));
    // The location of a builtin is shown in the row of its binding.
    const bool said_below = !located.parts.empty() && located.parts.front().role == "binding";
    if (!located.file.empty() && !said_below)
      row.location = printable(place_text(located, source_));
    if (located.file.empty()) row.location = printable(located.library);
    row.remark = printable(remark_of(located));
    row.place = {.file = located.path.empty() ? located.file : located.path,
                 .line = located.line,
                 .url = located.url};
    rows_.push_back(std::move(row));
    for (const Located& part : located.parts) {
      // Kernels of devices that this source lacks, such as MPS on Linux.
      if (part.file.empty() && part.role == "kernel" && !options_.all) continue;
      add(part, level + 1, false);
    }
  }

  std::string remark_of(const Located& located) const {
    std::vector<std::string> remarks;
    if (const std::string line = call_text(located, source_); !line.empty())
      remarks.push_back("called at :" + line);
    if (!located.note.empty()) remarks.push_back(located.note);
    if (located.left_out != 0)
      remarks.push_back(fmt::format("{} more with --all", located.left_out));
    return joined(remarks, "; ");
  }

  std::string lines() const {
    std::size_t labels = 0;
    std::size_t names = 0;
    std::size_t locations = 0;
    for (const Row& row : rows_) {
      labels = std::max(labels, row.level * kIndent + columns(row.label));
      names = std::max(names, columns(row.name));
      locations = std::max(locations, columns(row.location));
    }
    std::size_t room = kMaxNameWidth;
    // The columns that a terminal has left for the names. A location is never shortened.
    const std::size_t taken = labels + 2 + 2 + locations;
    if (options_.width > taken) room = std::max(kMinNameWidth, options_.width - taken);
    if (options_.width != 0 && options_.width <= taken) room = kMinNameWidth;
    names = std::min(names, room);
    std::string text;
    for (const Row& row : rows_) {
      std::string line(row.level * kIndent, ' ');
      line += options_.style.paint(row.label, row.level == 0 ? kCyan : kDim);
      line.append(labels + 2 - row.level * kIndent - columns(row.label), ' ');
      const std::string name = shorten_middle(row.name, room);
      line += options_.style.paint(name, row.level == 0 ? kBold : "");
      if (!row.location.empty()) {
        line.append(names > columns(name) ? names - columns(name) : 0, ' ');
        line += "  " + options_.style.link(row.location, row.place);
      }
      if (!row.remark.empty()) line += "  " + options_.style.paint(row.remark, kDim);
      text += line + '\n';
    }
    return text;
  }

  const IndexedSource& source_;
  const LocateTextOptions& options_;
  std::vector<Row> rows_;
};

}  // namespace

std::string to_text(const LocateResult& result, const IndexedSource& source,
                    const LocateTextOptions& options) {
  return TextWriter(source, options).write(result);
}

std::string to_text(const LocatedDefinition& definition, const LocateTextOptions& options) {
  const DefinitionText& text = definition.text;
  std::string result = options.style.paint(printable(definition.name), kBold) + "  " +
                       options.style.link(printable(place_text(definition.path, text.line, true)),
                                          {.file = definition.path, .line = text.line}) +
                       "\n";
  for (const std::string& line :
       highlighted(text.lines, language_of(definition.file), options.style))
    result += line + "\n";
  return result;
}

}  // namespace optrace
