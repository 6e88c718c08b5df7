#include <algorithm>
#include <cstddef>
#include <utility>

#include "platform/text/json_reader.h"
#include "pytorch/values/values_json.h"
#include "tracer/trace/op_record.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxRecordLength = 1 << 20;  // Bytes. The agent writes a few kilobytes.
constexpr std::size_t kMaxTextLength = 4096;       // Length limit of a string in a record.
constexpr std::size_t kMaxArguments = 256;
constexpr std::size_t kMaxElements = 128;  // Limit for a list or a shape.
constexpr unsigned kWordBits = 64;

Json read_record(std::string_view text) {
  return text.size() > kMaxRecordLength ? Json() : read_json(text);
}

std::string text_in(const Json& object, const char* key) {
  return text_at(object, key).substr(0, kMaxTextLength);
}

/// Reads the values of a record, with the names of keys in place of raw key sets.
class ValueReader {
 public:
  explicit ValueReader(const KeyNames& names) : names_(names) {}

  std::vector<ResultOrList> results_in(const Json& record) const {
    return list_of<ResultOrList>(
        list_at(record, "results"), kMaxArguments, [this](const Json& one) {
          return value_or_list<ResultOrList>(one, [this](const Json& single) {
            return Result{scalar(single), relation_named(text_at(single, "relation")),
                          text_in(single, "of")};
          });
        });
  }

  std::vector<Argument> arguments_in(const Json& record) const {
    return list_of<Argument>(list_at(record, "arguments"), kMaxArguments, [this](const Json& one) {
      return Argument{text_in(one, "name"),
                      value_or_list<Value>(value_at(one, "value"),
                                           [this](const Json& single) { return scalar(single); })};
    });
  }

 private:
  template <typename Element, typename Read>
  static std::vector<Element> list_of(const Json& list, std::size_t limit, const Read& read) {
    std::vector<Element> all;
    all.reserve(std::min(list.size(), limit));
    for (std::size_t i = 0; i < list.size() && i < limit; ++i) all.push_back(read(list[i]));
    return all;
  }

  template <typename ValueOrList, typename Read>
  static ValueOrList value_or_list(const Json& recorded, const Read& read) {
    if (!recorded.is_array()) return read(recorded);
    return list_of<decltype(read(recorded))>(recorded, kMaxElements, read);
  }

  static std::optional<Sizes> sizes(const Json& tensor, const char* key) {
    return list_at(tensor, key).size() > kMaxElements ? std::nullopt : sizes_at(tensor, key);
  }

  Scalar scalar(const Json& recorded) const {
    if (recorded.is_string())
      return recorded.get_ref<const std::string&>().substr(0, kMaxTextLength);
    if (!recorded.is_structured())
      return std::visit([](const auto& value) { return Scalar(value); }, constant_of(recorded));
    if (const Json& tensor = value_at(recorded, "tensor"); !tensor.is_null()) {
      const auto keys = number_at(tensor, "keys");
      return TensorFacts{
          sizes(tensor, "shape"),           sizes(tensor, "strides"),
          text_in(tensor, "dtype"),         text_in(tensor, "device"),
          flag_at(tensor, "requires_grad"), keys ? names_.all(*keys) : std::vector<std::string>(),
          flag_at(tensor, "wrapped_number")};
    }
    const std::string type = text_in(recorded, "type");
    return OtherValue{type.empty() ? "unknown" : type, text_in(recorded, "value")};
  }

  const KeyNames& names_;
};

OpCallRecord call_of(const Json& record, const KeyNames& names) {
  OpCallRecord call;
  call.op = text_in(record, "op");
  call.schema = text_in(record, "schema");
  call.arguments = ValueReader(names).arguments_in(record);
  call.key_set = number_at(record, "key_set");
  call.included = number_at(record, "included");
  call.excluded = number_at(record, "excluded");
  call.grad_mode = truth_at(record, "grad_mode");
  call.inference_mode = truth_at(record, "inference_mode");
  call.dispatch_modes = count_at(record, "dispatch_modes");
  const Json& script = object_at(record, "script");
  call.script_line = line_at(script, "line");
  if (call.script_line != 0) call.script_file = text_in(script, "file");
  return call;
}

// Returns true if the record of an op's results says that the call is a repeated one, and none of
// the results belongs to autograd's graph.
bool is_repeated_without_graph(const Json& record) {
  if (!flag_at(record, "repeated") || !value_at(record, "results").is_array()) return false;
  const auto has_graph = [](const Json& value) {
    const Json& gradient = value_at(value_at(value, "tensor"), "requires_grad");
    return !gradient.is_null() && gradient != false;
  };
  return std::ranges::none_of(list_at(record, "results"), [&](const Json& value) {
    return value.is_array() ? std::ranges::any_of(value, has_graph) : has_graph(value);
  });
}

// Reads a record that has a `kind`.
OpRecord request_of(Json& record) {
  const std::string kind = text_at(record, "kind");
  if (kind == "variables") {
    VariableTexts variables;
    for (const auto& [name, value] : object_at(record, "variables").items())
      if (value.is_string()) variables.texts.emplace(name, value.get<std::string>());
    return variables;
  }
  std::string kernel = kind == "kernel" ? text_at(record, "kernel") : std::string();
  if (kernel.empty()) return library_call_of(record);
  const bool called = value_at(record, "call").is_string();
  for (const char* const known : {"call", "kind", "kernel"}) record.erase(known);
  return KernelLaunch{std::move(kernel), called, launch_of(record)};
}

}  // namespace

OpRecord read_op_record(std::string_view text, const KeyNames& names) {
  Json record = read_record(text);
  if (value_at(record, "kind").is_string()) return request_of(record);
  if (!text_at(record, "op").empty()) return call_of(record, names);
  if (std::string node = text_in(record, "node"); !node.empty()) return NodeRun{std::move(node)};
  if (record.is_object() && record.contains("results"))
    return OpResults{ValueReader(names).results_in(record), is_repeated_without_graph(record)};
  return {};
}

KeyNames read_key_names(std::string_view text) {
  const Json record = read_record(text);
  const Json& names = value_at(record, "key_names");
  const Json& functionalities = list_at(names, "functionalities");
  const auto backends = number_at(names, "backends");
  if (!backends || *backends >= kWordBits || functionalities.size() > kWordBits - *backends)
    return {};
  std::vector<KeyNames::Functionality> read;
  for (const Json& functionality : functionalities) {
    KeyNames::Functionality& entry = read.emplace_back();
    entry.name = functionality.is_string() ? functionality.get<std::string>()
                                           : text_in(functionality, "name");
    if (entry.name.empty()) return {};
    const Json& keys = value_at(functionality, "keys");
    if (keys.is_null()) continue;
    if (!keys.is_array() || keys.size() != *backends) return {};
    entry.of_backend = texts_at(functionality, "keys");
    if (entry.of_backend.size() != *backends) return {};
  }
  return {static_cast<unsigned>(*backends), std::move(read)};
}

}  // namespace optrace
