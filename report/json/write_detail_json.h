#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "report/model/frame.h"

namespace optrace {

/// Returns a frame's `detail` (report.schema.json) without its time: an object, which is empty for
/// a detail without anything.
nlohmann::json to_json(const Detail& detail);
nlohmann::json to_json(const StoredTensor& tensor);
nlohmann::json to_json(const std::vector<Origin>& origins);
nlohmann::json to_json(const ReturnedValues& returned);
nlohmann::json to_json(const FrameTime& time);

}  // namespace optrace
