#include "report/merge/compiler_frames.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/model/compilations.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// The innermost line of the program that leads to a frame's children.
struct Above {
  const Frame* caller = nullptr;  // The innermost Python function that is not torch's.
  std::uint32_t line = 0;         // Of the call that it makes; 0 before that is known.
  const Frame* parent = nullptr;
  const Frame* generated = nullptr;  // The innermost function of a generated file.
};

// Dynamo's callback, whose frame PyTorch's records are about. Others compile backward graphs.
constexpr std::string_view kDynamo = "torch._dynamo.convert_frame.";

bool is_of_program(const Frame& frame) {
  return frame.layer == Layer::python && frame.source && !frame.source->file.empty() &&
         !frame.source->file.starts_with("torch/");
}

// A call that generated code makes has an origin, and the kernel that such a call leads to has all
// that were fused into it. Of these, only the last is known if an earlier process generated it.
void note_origin(Frame& frame, const Above& above, const GeneratedCode& generated) {
  const Frame* const parent = above.parent;
  if (parent == nullptr) return;
  if (parent->layer == Layer::python) {
    if (!parent->source || !frame.source) return;
    const std::optional<std::uint32_t> line = frame.source->call_line;
    if (!line) return;
    if (const auto origin = generated.origin_of(parent->source->file, *line))
      frame.detail.edit()["origins"] = to_json({*origin});
  } else if (frame.layer == Layer::kernel && parent->layer == Layer::binding &&
             parent->detail.contains("origins") && !parent->op) {
    frame.detail.edit()["origins"] = parent->detail["origins"];
  }
  // What the threads of an OpenMP region run has the name of the kernel that opened it.
  const bool is_of_region = frame.symbol && frame.symbol->find("._omp_fn.") != std::string::npos;
  const bool may_be_generated =
      frame.layer == Layer::device || (frame.layer == Layer::kernel && !frame.op && !is_of_region);
  if (!may_be_generated || above.generated == nullptr) return;
  const GeneratedCode::Kernels& kernels = generated.kernels_in(above.generated->source->file);
  const auto kernel = kernels.find(frame.name);
  if (kernel != kernels.end() && !kernel->second.empty())
    frame.detail.edit()["origins"] = to_json(kernel->second);
}

// Notes whose graphs a frame compiles or runs. The IDs are of forward graphs if there are any.
void note_ids(Frame& frame, const CompilationIds& ids) {
  const bool backward = ids.forward.empty();
  const std::vector<std::string>& known = backward ? ids.backward : ids.forward;
  if (known.empty()) return;
  frame.detail.edit()["compilations"] = known;
  if (backward) frame.detail.edit()["backward_graph"] = true;
}

}  // namespace

void note_compilations(Report& report, const GeneratedCode& generated) {
  if (!report.compilations.is_array() && generated.empty()) return;
  walk_frames(report.roots, Above{}, [&](Frame& frame, Above above) {
    note_origin(frame, above, generated);
    if (above.caller != nullptr && above.line == 0 && frame.source && frame.source->call_line)
      above.line = *frame.source->call_line;
    if (frame.layer == Layer::python && frame.source && generated.has(frame.source->file)) {
      frame.detail.edit()["generated"] = true;
      above.generated = &frame;
      note_ids(frame, compilations_of_file(report.compilations, frame.source->file));
    }
    if (frame.layer == Layer::compiler && above.caller != nullptr) {
      CompilationIds ids =
          compilations_at(report.compilations, above.caller->source->file, above.line);
      (frame.name.starts_with(kDynamo) ? ids.backward : ids.forward).clear();
      note_ids(frame, ids);
    }
    if (is_of_program(frame)) {
      above.caller = &frame;
      above.line = 0;
    }
    above.parent = &frame;
    return above;
  });
}

}  // namespace optrace
