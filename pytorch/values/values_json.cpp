#include "pytorch/values/values_json.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace optrace {
namespace {

using Json = nlohmann::json;

/// Reads a number, text or truth value into a variant that has alternatives for them.
template <typename Variant>
Variant primitive_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    return json.get<std::uint64_t>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  return std::monostate();
}

TensorFacts tensor_of(const Json& json) {
  return {sizes_at(json, "shape"),        sizes_at(json, "strides"),      text_at(json, "dtype"),
          text_at(json, "device"),        flag_at(json, "requires_grad"), texts_at(json, "keys"),
          flag_at(json, "wrapped_number")};
}

Scalar scalar_of(const Json& json) {
  if (!json.is_structured()) return primitive_of<Scalar>(json);
  if (const Json& tensor = value_at(json, "tensor"); tensor.is_object()) return tensor_of(tensor);
  return OtherValue{text_at(json, "type"), text_at(json, "value")};
}

Value value_of(const Json& json) {
  if (!json.is_array()) return scalar_of(json);
  std::vector<Scalar> list;
  for (const Json& one : json) list.push_back(scalar_of(one));
  return list;
}

Result single_result_of(const Json& json) {
  return {scalar_of(json), relation_named(text_at(json, "relation")), text_at(json, "of")};
}

OpenValue open_value_of(const Json& json);

std::vector<NamedValue> members_of(const Json& object) {
  std::vector<NamedValue> members;
  for (const auto& [name, value] : object.items()) members.push_back({name, open_value_of(value)});
  return members;
}

OpenValue open_value_of(const Json& json) {
  if (json.is_array()) {
    std::vector<OpenValue> list;
    for (const Json& one : json) list.push_back(open_value_of(one));
    return {std::move(list)};
  }
  if (json.is_object()) return {members_of(json)};
  return {primitive_of<decltype(OpenValue::value)>(json)};
}

std::vector<std::uint64_t> numbers_of(const Json& json) {
  std::vector<std::uint64_t> numbers;
  for (const Json& one : json) numbers.push_back(one.get<std::uint64_t>());
  return numbers;
}

bool is_list_of_numbers(const Json& json) {
  return json.is_array() &&
         std::ranges::all_of(json, [](const Json& one) { return one.is_number_unsigned(); });
}

// ---- The members of library calls and launches, by their keys ----

template <typename Struct>
struct TextMember {
  const char* key;
  std::string Struct::* member;
};
constexpr TextMember<LibraryCall> kCallTexts[] = {
    {"kind", &LibraryCall::kind},
    {"call", &LibraryCall::function},
    {"library", &LibraryCall::library},
    {"implementation", &LibraryCall::implementation},
    {"direction", &LibraryCall::direction},
    {"status", &LibraryCall::status},
    {"why", &LibraryCall::why},
};

struct NumberMember {
  const char* key;
  std::optional<std::uint64_t> Launch::* member;
};
constexpr NumberMember kLaunchNumbers[] = {
    {"shared_memory", &Launch::shared_memory},
    {"static_shared_memory", &Launch::static_shared_memory},
    {"registers", &Launch::registers},
    {"local_memory", &Launch::local_memory},
    {"num_warps", &Launch::num_warps},
    {"num_stages", &Launch::num_stages},
    {"device", &Launch::device},
    {"stream", &Launch::stream},
};

struct DimensionsMember {
  const char* key;
  std::vector<std::uint64_t> Launch::* member;
};
constexpr DimensionsMember kLaunchDimensions[] = {
    {"grid", &Launch::grid}, {"block", &Launch::block}, {"cluster", &Launch::cluster}};

constexpr const char* kDuration = "duration_ns";

/// Reads what calls and launches have in common. Returns false for another key or type.
template <typename Record>
bool read_common(Record& record, const std::string& key, const Json& value) {
  if (key == "calls" && value.is_number_unsigned()) {
    record.calls = value.get<std::uint64_t>();
    return true;
  }
  if (key == kDuration && value.is_object()) {
    record.duration = {count_at(value, "total"), count_at(value, "shortest"),
                       count_at(value, "longest")};
    return true;
  }
  return false;
}

bool read_member(LibraryCall& call, const std::string& key, const Json& value) {
  if (read_common(call, key, value)) return true;
  if (key == "bytes" && value.is_number_unsigned()) {
    call.bytes = value.get<std::uint64_t>();
    return true;
  }
  if (key == "error" && value.is_number_integer()) {
    call.error = value.get<std::int64_t>();
    return true;
  }
  for (const auto& [known, member] : kCallTexts)
    if (key == known && value.is_string() && !value.get_ref<const std::string&>().empty()) {
      call.*member = value.get<std::string>();
      return true;
    }
  return false;
}

bool read_member(Launch& launch, const std::string& key, const Json& value) {
  if (read_common(launch, key, value)) return true;
  if (key == "constants" && value.is_object()) {
    launch.constants = constants_of(value);
    return true;
  }
  for (const auto& [known, member] : kLaunchNumbers)
    if (key == known && value.is_number_unsigned()) {
      launch.*member = value.get<std::uint64_t>();
      return true;
    }
  for (const auto& [known, member] : kLaunchDimensions)
    if (key == known && is_list_of_numbers(value) && !value.empty()) {
      launch.*member = numbers_of(value);
      return true;
    }
  return false;
}

template <typename Record>
Record record_of(const Json& json) {
  Record record;
  if (!json.is_object()) return record;
  for (const auto& [key, value] : json.items())
    if (!read_member(record, key, value)) record.values.push_back({key, open_value_of(value)});
  return record;
}

template <typename Record>
Json common_json(const Record& record) {
  Json object = {{"calls", record.calls}};
  if (record.duration) object[kDuration] = to_json(*record.duration);
  for (const NamedValue& one : record.values) object[one.name] = to_json(one.value);
  return object;
}

// ---- Writing ----

struct PrimitiveJson {
  Json operator()(std::monostate /*none*/) const { return nullptr; }
  template <typename Primitive>
  Json operator()(const Primitive& value) const {
    return value;
  }
};

struct ScalarJson : PrimitiveJson {
  using PrimitiveJson::operator();
  Json operator()(const TensorFacts& tensor) const {
    Json object = {{"shape", to_json(tensor.shape)},
                   {"strides", to_json(tensor.strides)},
                   {"dtype", tensor.dtype.empty() ? Json() : Json(tensor.dtype)},
                   {"device", tensor.device.empty() ? Json() : Json(tensor.device)},
                   {"requires_grad", tensor.requires_grad},
                   {"keys", tensor.keys}};
    if (tensor.wrapped_number) object["wrapped_number"] = true;
    return {{"tensor", std::move(object)}};
  }
  Json operator()(const OtherValue& value) const {
    Json object = {{"type", value.type}};
    if (!value.text.empty()) object["value"] = value.text;
    return object;
  }
};

struct OpenJson : PrimitiveJson {
  using PrimitiveJson::operator();
  Json operator()(const std::vector<OpenValue>& list) const {
    Json json = Json::array();
    for (const OpenValue& one : list) json.push_back(to_json(one));
    return json;
  }
  Json operator()(const std::vector<NamedValue>& members) const {
    Json json = Json::object();
    for (const NamedValue& one : members) json[one.name] = to_json(one.value);
    return json;
  }
};

Json scalar_json(const Scalar& value) {
  return std::visit(ScalarJson(), value);
}

Json value_json(const Value& value) {
  if (const auto* const scalar = std::get_if<Scalar>(&value)) return scalar_json(*scalar);
  Json list = Json::array();
  for (const Scalar& one : std::get<std::vector<Scalar>>(value)) list.push_back(scalar_json(one));
  return list;
}

Json single_result_json(const Result& result) {
  Json json = scalar_json(result.value);
  if (!std::holds_alternative<TensorFacts>(result.value)) return json;
  if (result.relation != ResultRelation::unknown) json["relation"] = name_of(result.relation);
  if (!result.of.empty()) json["of"] = result.of;
  return json;
}

}  // namespace

std::optional<Sizes> sizes_at(const Json& object, const char* key) {
  const Json& list = value_at(object, key);
  if (!list.is_array()) return std::nullopt;
  Sizes sizes;
  for (const Json& size : list) {
    if (!size.is_number_integer()) return std::nullopt;
    sizes.push_back(size.get<std::int64_t>());
  }
  return sizes;
}

Constant constant_of(const Json& json) {
  return primitive_of<Constant>(json);
}

Argument argument_of(const Json& json) {
  return {text_at(json, "name"), value_of(value_at(json, "value"))};
}

ResultOrList result_of(const Json& json) {
  if (!json.is_array()) return single_result_of(json);
  std::vector<Result> list;
  for (const Json& one : json) list.push_back(single_result_of(one));
  return list;
}

ResultRelation relation_named(const std::string& name) {
  return name == "fresh"   ? ResultRelation::fresh
         : name == "view"  ? ResultRelation::view
         : name == "alias" ? ResultRelation::alias
                           : ResultRelation::unknown;
}

std::optional<Duration> duration_at(const Json& object, const char* key) {
  const Json& value = value_at(object, key);
  if (!value.is_object()) return std::nullopt;
  return Duration{count_at(value, "total"), count_at(value, "shortest"),
                  count_at(value, "longest")};
}

LibraryCall library_call_of(const Json& json) {
  return record_of<LibraryCall>(json);
}

Launch launch_of(const Json& json) {
  return record_of<Launch>(json);
}

std::vector<NamedConstant> constants_of(const Json& json) {
  std::vector<NamedConstant> constants;
  if (!json.is_object()) return constants;
  for (const auto& [name, value] : json.items())
    if (value.is_primitive()) constants.push_back({name, constant_of(value)});
  return constants;
}

Json to_json(const Constant& value) {
  return std::visit(PrimitiveJson(), value);
}

Json to_json(const Argument& argument) {
  return {{"name", argument.name.empty() ? Json() : Json(argument.name)},
          {"value", value_json(argument.value)}};
}

Json to_json(const std::vector<Argument>& arguments) {
  Json list = Json::array();
  for (const Argument& one : arguments) list.push_back(to_json(one));
  return list;
}

Json to_json(const ResultOrList& result) {
  if (const auto* const single = std::get_if<Result>(&result)) return single_result_json(*single);
  Json list = Json::array();
  for (const Result& one : std::get<std::vector<Result>>(result))
    list.push_back(single_result_json(one));
  return list;
}

Json to_json(const std::vector<ResultOrList>& results) {
  Json list = Json::array();
  for (const ResultOrList& one : results) list.push_back(to_json(one));
  return list;
}

Json to_json(const std::optional<Sizes>& sizes) {
  return sizes ? Json(*sizes) : Json();
}

Json to_json(const Duration& duration) {
  return {
      {"total", duration.total}, {"shortest", duration.shortest}, {"longest", duration.longest}};
}

Json to_json(const OpenValue& value) {
  return std::visit(OpenJson(), value.value);
}

Json to_json(const std::vector<NamedConstant>& constants) {
  Json object = Json::object();
  for (const NamedConstant& one : constants) object[one.name] = to_json(one.value);
  return object;
}

Json to_json(const LibraryCall& call) {
  Json object = common_json(call);
  for (const auto& [key, member] : kCallTexts)
    if (!(call.*member).empty()) object[key] = call.*member;
  if (call.bytes) object["bytes"] = *call.bytes;
  if (call.error) object["error"] = *call.error;
  return object;
}

Json to_json(const Launch& launch) {
  Json object = common_json(launch);
  for (const auto& [key, member] : kLaunchNumbers)
    if (const std::optional<std::uint64_t>& number = launch.*member) object[key] = *number;
  for (const auto& [key, member] : kLaunchDimensions)
    if (!(launch.*member).empty()) object[key] = launch.*member;
  if (!launch.constants.empty()) object["constants"] = to_json(launch.constants);
  return object;
}

}  // namespace optrace
