#include "report/model/user_code.h"

#include "pytorch/functions/layers.h"
#include "pytorch/source/source_files.h"

namespace optrace {
namespace {

// Returns true for a Python frame outside of torch and of the code that torch generates.
bool is_user_frame(const Frame& frame) {
  return frame.layer == Layer::python && frame.source && !frame.source->file.empty() &&
         frame.source->line != 0 && !is_file_of_torch(frame.source->file) &&
         !frame.detail->generated;
}

// Returns true for code of the interpreter's library or of an installed package.
bool is_installed(const Frame& frame) {
  return frame.source && (frame.source->file.starts_with('<') ||
                          frame.source->file.find("/lib/python3") != std::string::npos);
}

}  // namespace

bool is_program_code(const Frame& frame) {
  return is_user_frame(frame) && !is_installed(frame);
}

const Origin* origin_of(const Frame& frame) {
  const Origin* last = nullptr;
  for (const Origin& origin : frame.detail->origins)
    if (origin.line != 0) last = &origin;
  return last;
}

bool is_generated_kernel(const Frame& frame) {
  return frame.layer == Layer::kernel && !frame.detail->origins.empty();
}

std::size_t innermost_user_frame(const std::vector<const Frame*>& path, std::size_t above) {
  const Frame& frame = *path.back();
  const bool better = is_user_frame(frame) &&
                      (above == kNoUserFrame || !is_installed(frame) || is_installed(*path[above]));
  return better ? path.size() - 1 : above;
}

const FrameSource* source_at(const std::vector<const Frame*>& path, std::size_t at) {
  if (at >= path.size()) return nullptr;
  const Frame& frame = *path[at];
  return frame.source ? &*frame.source : nullptr;
}

std::uint32_t calling_line(const std::vector<const Frame*>& path, std::size_t at) {
  const FrameSource* const source = source_at(path, at);
  const FrameSource* const next = source_at(path, at + 1);
  if (next != nullptr && next->call_line) return *next->call_line;
  return source == nullptr ? 0 : source->line;
}

}  // namespace optrace
