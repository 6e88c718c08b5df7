#include "report/compiled/compiler_frames.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pytorch/source/source_files.h"
#include "report/compiled/compilations.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// What leads to a frame's children.
struct LeadingFrames {
  const Frame* caller = nullptr;  // The innermost Python function that is not torch's.
  std::uint32_t line = 0;         // Of the call that it makes; 0 before that is known.
  const Frame* parent = nullptr;
  const Frame* generated = nullptr;  // The innermost function of a generated file.
};

// Dynamo's callback, whose frame PyTorch's records are about. Others compile backward graphs.
constexpr std::string_view kDynamo = "torch._dynamo.convert_frame.";

bool is_of_program(const Frame& frame) {
  return frame.layer == Layer::python && frame.source && !frame.source->file.empty() &&
         !is_file_of_torch(frame.source->file);
}

// A call that generated code makes has an origin, and the kernel that such a call leads to has all
// that were fused into it. Of these, only the last is known if an earlier process generated it.
void set_origin(Frame& frame, const LeadingFrames& above, const GeneratedCode& generated) {
  const Frame* const parent = above.parent;
  if (parent == nullptr) return;
  if (parent->layer == Layer::python) {
    if (!parent->source || !frame.source) return;
    const std::optional<std::uint32_t> line = frame.source->call_line;
    if (!line) return;
    if (const auto origin = generated.origin_of(parent->source->file, *line))
      frame.detail.edit().origins = {*origin};
  } else if (frame.layer == Layer::kernel && parent->layer == Layer::binding &&
             !parent->detail->origins.empty() && !parent->op) {
    frame.detail.edit().origins = parent->detail->origins;
  }
  // What the threads of an OpenMP region run has the name of the kernel that opened it.
  const bool is_of_region = frame.symbol && frame.symbol->find("._omp_fn.") != std::string::npos;
  const bool may_be_generated =
      frame.layer == Layer::device || (frame.layer == Layer::kernel && !frame.op && !is_of_region);
  if (!may_be_generated || above.generated == nullptr) return;
  const GeneratedCode::Kernels& kernels = generated.kernels_in(above.generated->source->file);
  const auto kernel = kernels.find(frame.name);
  if (kernel != kernels.end() && !kernel->second.origins.empty())
    frame.detail.edit().origins = kernel->second.origins;
}

// Records whose graphs a frame compiles or runs.
void add_ids(Frame& frame, const std::vector<std::string>& ids, bool backward) {
  if (ids.empty()) return;
  Detail& detail = frame.detail.edit();
  detail.compilations = ids;
  detail.backward_graph = detail.backward_graph || backward;
}

void add_compilations_of(Frame& frame, const LeadingFrames& above,
                         const std::vector<Compilation>& compilations) {
  if (above.caller == nullptr) return;
  const std::string_view name = above.caller->name;
  const CallPlace place{.file = above.caller->source->file,
                        .line = above.line,
                        .function = name.substr(name.rfind('.') + 1),
                        .function_line = above.caller->source->line};
  if (frame.name.starts_with(kDynamo))
    add_ids(frame, compilations_at(compilations, place), false);
  else
    add_ids(frame, backward_compilations_at(compilations, place), true);
}

}  // namespace

void add_compilations(Report& report, const GeneratedCode& generated) {
  if (report.compilations.empty() && generated.empty()) return;
  walk_frames(report.roots, LeadingFrames{}, [&](Frame& frame, LeadingFrames above) {
    set_origin(frame, above, generated);
    if (above.caller != nullptr && above.line == 0 && frame.source && frame.source->call_line)
      above.line = *frame.source->call_line;
    if (frame.layer == Layer::python && frame.source && generated.has(frame.source->file)) {
      frame.detail.edit().generated = true;
      above.generated = &frame;
      const CompilationIds ids = compilations_of_file(report.compilations, frame.source->file);
      add_ids(frame, ids.forward.empty() ? ids.backward : ids.forward, ids.forward.empty());
    }
    if (frame.layer == Layer::compiler) add_compilations_of(frame, above, report.compilations);
    if (is_of_program(frame)) {
      above.caller = &frame;
      above.line = 0;
    }
    above.parent = &frame;
    return above;
  });
}

}  // namespace optrace
