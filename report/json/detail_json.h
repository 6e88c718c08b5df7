#pragma once

#include <string>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "report/model/report_reader.h"

namespace optrace {

/// Writes the details of frames as JSON texts. Details that frames share are written once.
class DetailJson {
 public:
  /// Returns the JSON text of detail_with_time(frame); `null` if the frame has neither.
  std::string text_of(const Frame& frame);

 private:
  // The keys and values around those of the time, which stand in the order of the keys.
  struct Parts {
    std::string before, after;
  };
  const Parts& parts_of(const nlohmann::json& detail);

  std::unordered_map<const nlohmann::json*, Parts> parts_;
};

}  // namespace optrace
