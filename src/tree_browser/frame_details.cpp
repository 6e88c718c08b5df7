#include "src/tree_browser/frame_details.h"

#include <utility>

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "present/readable_numbers.h"
#include "report/json/detail_json.h"
#include "report/lines/frame_line.h"
#include "report/model/frame_time.h"

namespace optrace {
namespace {

class FactList {
 public:
  void add(std::string label, std::string_view value) {
    if (!value.empty()) facts_.push_back({std::move(label), printable(value)});
  }

  std::vector<FrameFact> take() { return std::move(facts_); }

 private:
  std::vector<FrameFact> facts_;
};

// Returns `3 in 56 µs, of which 7 µs in the frame itself`.
std::string calls_of(const Frame& frame) {
  std::string text = readable_count(frame.calls);
  if (const std::uint64_t total = total_time(frame); total != 0)
    text += fmt::format(" in {}, of which {} in the frame itself", readable_time(total),
                        readable_time(own_time(frame)));
  return text;
}

}  // namespace

std::vector<FrameFact> frame_details(const Frame& frame, const Frame* parent,
                                     const Report& report) {
  const FrameLine line = frame_line(frame, parent, report, true);
  FactList facts;
  facts.add("name", frame.name);
  facts.add("op", frame.op.value_or(""));
  facts.add("layer", line.note.empty() ? std::string(name_of(frame.layer))
                                       : fmt::format("{}  {}", name_of(frame.layer), line.note));
  facts.add(frame.detail->dispatch ? "why" : "call", line.why);
  facts.add("source", line.location);
  if (!line.call.empty())
    facts.add("called at", fmt::format("{}{}", line.call_site.file, line.call.substr(10)));
  facts.add("calls", calls_of(frame));
  facts.add("library", frame.library.value_or(""));
  facts.add("symbol", frame.symbol.value_or(""));
  if (frame.source) facts.add("url", frame.source->url);
  for (const DetailEntry& entry : detail_entries(frame)) facts.add(entry.key, entry.value);
  return facts.take();
}

}  // namespace optrace
