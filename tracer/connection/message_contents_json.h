#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "platform/exported.h"
#include "tracer/connection/message_contents.h"

namespace optrace {

struct TargetMessage::Content {
  nlohmann::json json;  ///< An object.
  std::string kind;
};

/// Returns the paths in a list of a target's message: none if it has no such list.
std::vector<std::filesystem::path> paths_in(const nlohmann::json& message, const char* key);

/// Returns an order as a line.
std::string json_line(const nlohmann::json& order);

/// Returns what a target's description says of its torch, after checking the types that the report
/// relies on. Throws Error(failed).
OPTRACE_EXPORTED TraceMeta checked_torch(const nlohmann::json& described);

}  // namespace optrace
