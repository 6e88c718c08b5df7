#pragma once

#include <string>
#include <vector>

#include "present/file_links.h"
#include "report/model/report.h"

namespace optrace {

/// One line of the tree, in parts that are aligned with those of other lines.
struct FrameLine {
  Layer layer = Layer::runtime;
  std::string branch;  ///< Line-drawing characters before the name.
  std::string name;
  std::string note;                   ///< After the name: `call`, `AVX2`.
  std::string location;               ///< Location of the definition.
  FilePlace definition;               ///< What `location` shows.
  std::string call;                   ///< `called at :549`
  FilePlace call_site;                ///< What `call` shows.
  std::string times;                  ///< `×12`
  std::string why;                    ///< Printed on a line of its own, below.
  std::vector<std::string> backends;  ///< Of an op with several, likewise.
  std::vector<std::string> tensors;   ///< Likewise.
  std::string below;                  ///< Line-drawing characters before these.
  bool divider = false;               ///< Not a frame: names the thread of the following frames.
};

/// Returns what follows a frame's name: `call`, `AVX2`, `rank 1 only`. `parent` may be null.
std::string frame_note(const Frame& frame, const Frame* parent, const Report& report);

/// Returns the line of a frame without its line-drawing characters. `parent` may be null. `why`:
/// explain the dispatcher's choice.
FrameLine frame_line(const Frame& frame, const Frame* parent, const Report& report, bool why);

}  // namespace optrace
