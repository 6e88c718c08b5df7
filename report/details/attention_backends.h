#pragma once

#include <string>
#include <vector>

#include "indexer/store/index_store.h"
#include "report/model/report.h"
#include "tracer/trace/trace_meta.h"

namespace optrace {

/// A call of aten::scaled_dot_product_attention in a trace's metadata.
struct AttentionCall {
  std::vector<CallInput> inputs;
  std::vector<AttentionBackend> backends;  ///< At least one.
};

/// Reads the metadata (`attention`, docs/trace-format.md), which is untrusted: invalid entries are
/// skipped. Refusals have no names of checks yet.
std::vector<AttentionCall> recorded_attention(const TraceMeta& meta);

/// Adds `attention_backends` (docs/report-format.md) to the calls of
/// aten::scaled_dot_product_attention: the backends that accept the call, and the others with
/// PyTorch's messages. `index` gives the names of the checks; it is null if the lines of the
/// trace's torch are not known exactly.
void add_attention_backends(Report& report, const TraceMeta& meta, const Index* index);

/// Returns a line for each backend:
///
///     efficient: chosen
///     flash: refused by check_for_attn_mask (sdp_utils_cpp.h:264): Flash Attention does not ...
std::vector<std::string> attention_lines(const std::vector<AttentionBackend>& backends);

}  // namespace optrace
