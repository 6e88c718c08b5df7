#pragma once

#include "platform/files/output_sink.h"
#include "report/model/report.h"

namespace optrace {

/// Writes a line for each call and redispatch of an op in the format that a debug build of PyTorch
/// prints with TORCH_SHOW_DISPATCH_TRACE=1 (aten/src/ATen/core/dispatch/Dispatcher.cpp):
///
///      [call] op=[aten::add.Tensor], key=[AutogradCPU]
///       [redispatch] op=[aten::add.Tensor], key=[CPU]
///
/// The spaces before a line are the calls and redispatches in progress, as there. A path that was
/// taken several times is written once. The nodes of the backward pass follow at the end. The key
/// is a question mark if the trace has no op records.
void to_dispatch_trace(const Report& report, OutputSink& sink);

}  // namespace optrace
