#pragma once

// The values of ops and library calls in the JSON of traces and reports. Only files that read or
// write JSON include this header. C++17, because the reader library is made of it.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "platform/text/json_fields.h"
#include "pytorch/values/library_call.h"
#include "pytorch/values/values.h"

namespace optrace {

// These read untrusted JSON, and skip what is invalid.

/// Nothing for anything but a list of whole numbers.
std::optional<Sizes> sizes_at(const nlohmann::json& object, const char* key);

Constant constant_of(const nlohmann::json& json);
Argument argument_of(const nlohmann::json& json);
ResultOrList result_of(const nlohmann::json& json);
ResultRelation relation_named(const std::string& name);
std::optional<Duration> duration_at(const nlohmann::json& object, const char* key);
LibraryCall library_call_of(const nlohmann::json& json);
Launch launch_of(const nlohmann::json& json);
/// Reads an object as named values, ordered by name.
std::vector<NamedConstant> constants_of(const nlohmann::json& json);

nlohmann::json to_json(const Constant& value);
nlohmann::json to_json(const Argument& argument);
nlohmann::json to_json(const std::vector<Argument>& arguments);
nlohmann::json to_json(const ResultOrList& result);
nlohmann::json to_json(const std::vector<ResultOrList>& results);
nlohmann::json to_json(const std::optional<Sizes>& sizes);  ///< null without sizes.
nlohmann::json to_json(const Duration& duration);
nlohmann::json to_json(const OpenValue& value);
nlohmann::json to_json(const std::vector<NamedConstant>& constants);
nlohmann::json to_json(const LibraryCall& call);
nlohmann::json to_json(const Launch& launch);

}  // namespace optrace
