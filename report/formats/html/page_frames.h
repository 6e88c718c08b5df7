#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "present/compressed_text.h"
#include "report/formats/html/page_excerpts.h"
#include "report/model/report.h"

namespace optrace {

/// The reports of a comparison that have a frame. docs/html-page.md has the numbers.
enum class PageSide : std::uint8_t { both, first, second, changed };

/// A frame of a page's tree.
struct PageRow {
  const Frame* frame = nullptr;
  const Frame* parent = nullptr;
  std::size_t up = 0;  ///< Distance to the parent's row; 0 for a root.
  PageSide side = PageSide::both;
  const Frame* second = nullptr;  ///< The frame of the second report of a comparison, if any.
  bool sourced = true;            ///< The page's sources are those of the frame's report.
};

/// Returns the frames of a report, each before those below it.
std::vector<PageRow> page_rows(const Report& report);

/// Texts that a page contains once. The empty text has the number 0.
class PageTexts {
 public:
  PageTexts() { number_of(""); }

  std::uint64_t number_of(const std::string& text) {
    const auto [at, added] = numbers_.try_emplace(text, numbers_.size());
    if (added) texts_.push_back(&at->first);
    return at->second;
  }

  const std::vector<const std::string*>& all() const { return texts_; }

 private:
  std::unordered_map<std::string, std::uint64_t> numbers_;
  std::vector<const std::string*> texts_;  // Keys of numbers_, which do not move.
};

/// What the columns of a page's frames refer to.
struct PageFrames {
  explicit PageFrames(const Report& shown) : report(shown) {}

  const Report& report;  ///< Of the notes.
  std::vector<PageRow> rows;
  PageTexts texts;
  PageTexts details;  ///< JSON texts.
  /// By name of the frame: the detail of the last one, and its number.
  std::unordered_map<std::string_view, std::pair<const Detail*, std::uint64_t>> last_details;
  PageExcerpts excerpts;
  std::vector<std::uint64_t> threads;
  std::unordered_map<std::uint64_t, std::uint64_t> thread_numbers;
};

/// Records the lines of source that the rows need.
void need_excerpts(PageFrames& frames);

/// Writes the columns as a JSON object, and notes the texts that they refer to. A column whose
/// values are all 0 is an empty list.
void write_frames(PageFrames& frames, CompressedText& out);

}  // namespace optrace
