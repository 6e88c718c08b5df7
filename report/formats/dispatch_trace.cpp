#include <cstddef>
#include <string>
#include <vector>

#include "platform/text/printable_text.h"
#include "report/formats/writers.h"

namespace optrace {
namespace {

class Writer {
 public:
  explicit Writer(OutputSink& sink) : sink_(sink) {}

  void write(const Report& report) {
    for (const Frame& root : report.roots) write(root, 0);
    // The backward pass runs after the forward pass, in the reverse order. A node may cause others.
    while (!nodes_.empty()) {
      const Frame& node = *nodes_.back();
      nodes_.pop_back();
      write_below(node, 0);
    }
  }

 private:
  void write(const Frame& frame, std::size_t nesting) {
    if (frame.detail->node) {
      nodes_.push_back(&frame);
      return;
    }
    if (const Shared<DispatchDetail>& dispatch = frame.detail->dispatch;
        frame.layer == Layer::dispatcher && frame.op && dispatch) {
      ++nesting;  // As in PyTorch, the call itself counts.
      const std::string& key = dispatch->choice.dispatch_key;
      sink_.print("{}[{}{}] op=[{}], key=[{}]\n", std::string(nesting, ' '),
                  name_of(dispatch->step), frame.name.ends_with("Boxed") ? "Boxed" : "",
                  printable(*frame.op), key.empty() ? "?" : printable(key));
    }
    write_below(frame, nesting);
  }

  void write_below(const Frame& frame, std::size_t nesting) {
    for (const Frame& child : frame.children) write(child, nesting);
  }

  OutputSink& sink_;
  std::vector<const Frame*> nodes_;  // Of autograd, which are below the ops that made them.
};

}  // namespace

void to_dispatch_trace(const Report& report, const FormatOptions&, OutputSink& sink) {
  Writer(sink).write(report);
}

}  // namespace optrace
