#pragma once

#include <string>
#include <vector>

#include "indexer/store/index_store.h"
#include "report/model/report.h"

namespace optrace {

/// Adds `attention_backends` (docs/report-format.md) to the calls of
/// aten::scaled_dot_product_attention: the backends that accept the call, and the others with
/// PyTorch's messages. They are in the trace's metadata (`attention`, docs/trace-format.md), which
/// is untrusted: invalid entries are skipped. `index` gives the names of the checks; it is null if
/// the lines of the trace's torch are not known exactly.
void add_attention_backends(Report& report, const TraceMeta& meta, const Index* index);

/// Returns a line for each backend:
///
///     efficient: chosen
///     flash: refused by check_for_attn_mask (sdp_utils_cpp.h:264): Flash Attention does not ...
std::vector<std::string> attention_lines(const std::vector<AttentionBackend>& backends);

}  // namespace optrace
