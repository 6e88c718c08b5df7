#include "report/model/frame_name.h"

#include <cstddef>
#include <string_view>

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "present/line_text.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Returns `Conv2d.forward` for `torch.nn.modules.conv.Conv2d.forward`.
std::string short_python_name(const std::string& name) {
  std::size_t at = 0;
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', at)) {
    const std::string_view rest = std::string_view(name).substr(dot + 1);
    // Modules are lower-case; a class ends the module's name.
    const bool more = rest.find('.') != std::string_view::npos;
    const bool at_class = name[at] >= 'A' && name[at] <= 'Z';
    if (at_class) break;
    if (!more && name[at] == '_' && at != 0 && name.compare(at, 2, "__") == 0) break;
    at = dot + 1;
  }
  return name.substr(at);
}

}  // namespace

std::string frame_name(const Frame& frame) {
  if (frame.detail->dispatch) return printable(frame.op.value_or(frame.name));
  return printable(is_python(frame.layer) ? short_python_name(frame.name) : short_name(frame.name));
}

std::string frame_label(const Frame& frame) {
  const Shared<DispatchDetail>& dispatch = frame.detail->dispatch;
  return dispatch ? fmt::format("{} ({})", frame_name(frame), name_of(dispatch->step))
                  : frame_name(frame);
}

std::string place_text(const FrameSource& source) {
  if (source.file.empty()) return {};
  return place_text(source.file, source.line, !source.approximate);
}

}  // namespace optrace
