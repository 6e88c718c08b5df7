#pragma once

#include <nlohmann/json.hpp>

#include "report/model/detail.h"

namespace optrace {

/// Reads a frame's `detail` (report.schema.json), which is untrusted: what is invalid is skipped.
/// `json` may be any JSON.
Detail detail_of(const nlohmann::json& json);
/// Same, for a tensor of `tensors`.
StoredTensor stored_tensor_of(const nlohmann::json& json);
/// Same, for an element of `origins`.
Origin origin_of(const nlohmann::json& json);
/// Same, for an element of `configurations`.
TritonConfiguration configuration_of(const nlohmann::json& json);

}  // namespace optrace
