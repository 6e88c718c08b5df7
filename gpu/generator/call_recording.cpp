#include "gpu/generator/call_recording.h"

#include <set>

#include <fmt/core.h>

namespace optrace {
namespace {

std::string parameter_name(const Parameter& parameter, std::size_t position) {
  return parameter.name.empty() ? fmt::format("argument_{}", position) : parameter.name;
}

}  // namespace

// `Type<T>` gives every type, including function pointers, a syntax that a name can follow.
const std::string_view kRecordingPreamble = R"(
#include "gpu/emulated/device/device.h"

namespace {

template <typename T>
struct Same {
  using type = T;
};
template <typename T>
using Type = typename Same<T>::type;

template <typename T>
[[maybe_unused]] void add_enumerator(optrace::emulated::Call& call, T value, const char* name) {
  if (name != nullptr) {
    call.json().string(name);
  } else {
    call.json().number(static_cast<std::int64_t>(value));
  }
}

}  // namespace
)";

std::string EnumeratorNames::name_of(const Parameter& parameter) {
  const auto [entry, added] = functions_.emplace(
      parameter.enumerators, fmt::format("enumerator_name_{}", functions_.size()));
  if (added) write(entry->second, parameter.enumerators);
  return entry->second;
}

void EnumeratorNames::write(const std::string& function,
                            const std::vector<std::pair<long long, std::string>>& enumerators) {
  text_ += fmt::format("const char* {}(long long value) {{\n  switch (value) {{\n", function);
  std::set<long long> seen;
  for (const auto& [value, name] : enumerators)
    if (seen.insert(value).second)
      text_ += fmt::format("    case {}: return \"{}\";\n", value, name);
  text_ += "    default: return nullptr;\n  }\n}\n";
}

std::string recording_of(const Prototype& prototype, EnumeratorNames& names) {
  std::string body = fmt::format(
      "  if (optrace::emulated::recording()) {{\n"
      "    optrace::emulated::Call call(\"{}\", \"library\");\n",
      prototype.name);
  for (std::size_t i = 0; i < prototype.parameters.size(); ++i) {
    const Parameter& parameter = prototype.parameters[i];
    const std::string name = parameter_name(parameter, i);
    std::string value;
    switch (parameter.kind) {
      case ValueKind::boolean:
        value = fmt::format("call.json().boolean(a{})", i);
        break;
      case ValueKind::integer:
        value = fmt::format("call.json().number(static_cast<std::int64_t>(a{}))", i);
        break;
      case ValueKind::real:
        value = fmt::format("call.json().number(static_cast<double>(a{}))", i);
        break;
      case ValueKind::enumeration:
        value = fmt::format("add_enumerator(call, a{0}, {1}(static_cast<long long>(a{0})))", i,
                            names.name_of(parameter));
        break;
      case ValueKind::pointer:
      case ValueKind::other:
        continue;
    }
    body += fmt::format("    call.json().key(\"{}\");\n    {};\n", name, value);
  }
  return body + "    call.record();\n  }\n";
}

std::string parameters_of(const Prototype& prototype) {
  std::string parameters;
  for (std::size_t i = 0; i < prototype.parameters.size(); ++i)
    parameters += fmt::format("{}[[maybe_unused]] Type<{}> a{}", i == 0 ? "" : ", ",
                              prototype.parameters[i].type, i);
  return parameters;
}

}  // namespace optrace
