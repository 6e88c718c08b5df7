#include "report/json/detail_json.h"

#include <cstddef>
#include <string_view>

#include "platform/text/json_writer.h"
#include "report/model/frame_time.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

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

}  // namespace

const DetailJson::Parts& DetailJson::parts_of(const Json& detail) {
  if (const auto known = parts_.find(&detail); known != parts_.end()) return known->second;
  if (parts_.size() == kMaxDetails) parts_.clear();
  Json before = Json::object(), after = Json::object();
  for (const auto& [key, value] : detail.items()) (key < kTimeKey ? before : after)[key] = value;
  return parts_.emplace(&detail, Parts{members_of(before), members_of(after)}).first->second;
}

std::string DetailJson::text_of(const Frame& frame) {
  if (frame.detail.is_null() && !frame.time) return "null";
  std::string text = "{";
  const bool known = frame.detail.is_object();
  if (known) add(parts_of(frame.detail).before, text);
  if (frame.time) add(members_of({{kTimeKey, time_json(*frame.time)}}), text);
  if (known) add(parts_of(frame.detail).after, text);
  return text + '}';
}

}  // namespace optrace
