#pragma once

#include <nlohmann/json.hpp>

#include "report/json/detail_json.h"
#include "report/json/read_detail_json.h"
#include "report/model/frame.h"

namespace optrace {

/// Returns a frame's detail as a report has it, with its time; null if there is none.
inline nlohmann::json written_detail(const Frame& frame) {
  return nlohmann::json::parse(detail_json(frame));
}

/// Returns the detail that a report has as this JSON.
inline Detail read_detail(const nlohmann::json& json) {
  return detail_of(json);
}
inline Detail read_detail(const char* json) {
  return detail_of(nlohmann::json::parse(json));
}

}  // namespace optrace
