#include "src/terminal/printable_sink.h"

#include <cstddef>

#include "platform/text/printable_text.h"

namespace optrace {

void PrintableSink::write(std::string_view text) {
  constexpr std::size_t kEnough = 1 << 16;  // Bytes.
  if (!open_) return;
  collected_ += text;
  // What is harmless depends on what stands before it in its line.
  if (collected_.size() >= kEnough && text.find('\n') != std::string_view::npos)
    pass_on(collected_.rfind('\n') + 1);
}

void PrintableSink::finish() {
  pass_on(collected_.size());
}

void PrintableSink::pass_on(std::size_t size) {
  if (size == 0 || !open_) return;
  open_ = destination_(printable_output(std::string_view(collected_).substr(0, size)));
  collected_.erase(0, size);
}

}  // namespace optrace
