#include "report/json/detail_json.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "platform/text/json_writer.h"
#include "pytorch/values/values_json.h"
#include "report/json/report_parts_json.h"
#include "report/json/write_detail_json.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

// The key of a frame's time in its detail.
constexpr const char* kTime = "time";

// Frames with details of their own must not fill the memory.
constexpr std::size_t kMaxDetails = 4096;

// Adds the JSON text of an object without its braces.
void add(std::string_view members, std::string& text) {
  if (members.empty()) return;
  if (text.size() > 1) text += ',';
  text += members;
}

std::string members_of(const Json& object) {
  const std::string text = write_json(object);
  return text.substr(1, text.size() - 2);
}

// Returns the JSON of an object without some keys; empty if it has no other one.
std::string without_keys(Json object, std::initializer_list<const char*> keys) {
  for (const char* const key : keys) object.erase(key);
  return object.empty() ? std::string() : write_json(object);
}

Json detail_with_time(const Frame& frame) {
  Json detail = to_json(*frame.detail);
  if (frame.time) detail[kTime] = to_json(*frame.time);
  return detail;
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string detail_json(const Frame& frame) {
  const bool has_any = frame.detail || frame.time;
  return has_any ? write_json(detail_with_time(frame)) : "null";
}

std::string detail_json(const Detail& detail) {
  return write_json(to_json(detail));
}

const DetailJson::Parts& DetailJson::parts_of(const Detail& detail) {
  if (const auto known = parts_.find(&detail); known != parts_.end()) return known->second;
  if (parts_.size() == kMaxDetails) parts_.clear();
  Json before = Json::object(), after = Json::object();
  const Json all = to_json(detail);
  for (const auto& [key, value] : all.items()) (key < kTime ? before : after)[key] = value;
  return parts_.emplace(&detail, Parts{members_of(before), members_of(after)}).first->second;
}

std::string DetailJson::text_of(const Frame& frame) {
  if (!frame.detail && !frame.time) return "null";
  std::string text = "{";
  if (frame.detail) add(parts_of(*frame.detail).before, text);
  if (frame.time) add(members_of({{kTime, to_json(*frame.time)}}), text);
  if (frame.detail) add(parts_of(*frame.detail).after, text);
  return text + '}';
}

std::string arguments_json(const std::vector<Argument>& arguments) {
  return write_json(to_json(arguments));
}

std::string results_json(const std::vector<ResultOrList>& results) {
  return write_json(to_json(results));
}

std::string sizes_json(const Sizes& sizes) {
  return write_json(Json(sizes));
}

std::string numbers_json(const std::vector<std::uint64_t>& numbers) {
  return write_json(Json(numbers));
}

std::string value_json(const OpenValue& value) {
  return write_json(to_json(value));
}

std::string call_json(const LibraryCall& call, std::initializer_list<const char*> without) {
  return without_keys(to_json(call), without);
}

std::string launch_json(const Launch& launch, std::initializer_list<const char*> without) {
  return without_keys(to_json(launch), without);
}

std::string returned_json(const ReturnedValues& returned) {
  return write_json(to_json(returned));
}

std::vector<DetailEntry> detail_entries(const Frame& frame) {
  std::vector<DetailEntry> entries;
  const Json detail = detail_with_time(frame);
  for (const auto& [key, value] : detail.items()) {
    if (!value.is_array() || value.empty() || !value.front().is_structured()) {
      entries.push_back({key, text_of(value)});
      continue;
    }
    bool first = true;
    for (const Json& element : value) {
      entries.push_back({first ? key : "", text_of(element)});
      first = false;
    }
  }
  return entries;
}

std::string device_json(const EmulatedDevice& device) {
  return write_json(to_json(device));
}

std::string steps_json(const RecordedSteps& steps) {
  return write_json(to_json(std::optional(steps)));
}

}  // namespace optrace
