#include "gpu/generator/definition_writer.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "gpu/generator/call_recording.h"
#include "gpu/generator/call_rules.h"

namespace optrace {
namespace {

constexpr std::string_view kPreamble = R"(
#include <cstring>
#include <mutex>
#include <new>
#include <set>

#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/device/device_versions.h"

namespace emulated = optrace::emulated;

namespace {

/// The handles that functions of this file made. Never destroyed: threads may outlive main().
struct Handles {
  std::mutex mutex;
  std::set<void*> all;
};

Handles& handles() {
  static Handles* const made = new Handles;
  return *made;
}

[[maybe_unused]] void* make_handle() {
  void* const handle = ::operator new(64, std::nothrow);
  if (handle == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(handles().mutex);
  handles().all.insert(handle);
  return handle;
}

[[maybe_unused]] bool drop_handle(void* handle) {
  const std::lock_guard<std::mutex> lock(handles().mutex);
  if (handles().all.erase(handle) == 0) return false;
  ::operator delete(handle);
  return true;
}

template <typename Value, typename Given, typename Status>
[[maybe_unused]] Status give(Value* output, Given value, Status success, Status invalid) {
  if (output == nullptr) return invalid;
  *output = value;
  return success;
}

// What the emulation needs is nothing, but callers want a block to point to.
[[maybe_unused]] constexpr int kWorkspace = 256;

}  // namespace
)";

/// Returns code that marks the targets of all non-const pointers as written, except those that are
/// set.
std::string outputs_of(const Prototype& prototype, const std::vector<std::size_t>& filled) {
  std::string text;
  for (std::size_t at = 0; at < prototype.parameters.size(); ++at) {
    const Parameter& parameter = prototype.parameters[at];
    const bool to_values = parameter.pointee == "void" || parameter.pointee_complete;
    if (parameter.kind == ValueKind::pointer && !parameter.pointee_constant && to_values &&
        std::ranges::find(filled, at) == filled.end())
      text += fmt::format("  optrace::emulated::library_wrote(a{});\n", at);
  }
  return text;
}

std::string body_of(const DeviceFamily& family, const Prototype& prototype,
                    EnumeratorNames& names) {
  const CallDecision decision = decide(family, prototype);
  const std::string succeed = fmt::format("  return {};\n", family.success);
  const std::string fail = fmt::format("return {};", family.failure);
  std::string body;
  switch (decision.behaviour) {
    case CallBehaviour::unimplemented:
    case CallBehaviour::implemented:
      break;
    case CallBehaviour::create: {
      const std::size_t at = decision.filled.front();
      return fmt::format(
          "  if (a{0} == nullptr) {1}\n"
          "  *a{0} = reinterpret_cast<Type<{2}>>(make_handle());\n"
          "  if (*a{0} == nullptr) {1}\n{3}",
          at, fail, prototype.parameters[at].pointee, succeed);
    }
    case CallBehaviour::destroy:
      return fmt::format(
          "  if (!drop_handle(const_cast<void*>(static_cast<const void*>(a0)))) {}\n{}", fail,
          succeed);
    case CallBehaviour::size:
      for (const std::size_t at : decision.filled)
        body += fmt::format("  if (a{0} == nullptr) {1}\n  *a{0} = kWorkspace;\n", at, fail);
      return body + succeed;
    case CallBehaviour::compute: {
      const std::string count =
          decision.count ? fmt::format("static_cast<std::size_t>(a{}) * ", *decision.count) : "";
      for (const std::size_t at : decision.filled)
        body += fmt::format("  if (a{0} != nullptr) std::memset(a{0}, 0, {1}sizeof *a{0});\n", at,
                            count);
      return body + outputs_of(prototype, decision.filled) + recording_of(prototype, names) +
             succeed;
    }
    case CallBehaviour::set:
      return body + succeed;
    case CallBehaviour::value:
      return fmt::format("  return {};\n", decision.value);
  }
  body = fmt::format("  optrace::emulated::unimplemented(\"{}\");\n", prototype.name);
  if (prototype.result == family.status) return body + "  " + fail + "\n";
  if (prototype.result == "void") return body;
  return body + fmt::format("  return Type<{}>();\n", prototype.result);
}

}  // namespace

std::string write_includes(std::span<const std::string> headers) {
  std::string text;
  for (const std::string& header : headers) text += fmt::format("#include <{}>\n", header);
  return text;
}

std::string write_definitions(const DeviceFamily& family, std::span<const std::string> headers,
                              std::span<const Prototype> prototypes,
                              std::span<const std::string> undeclared) {
  EnumeratorNames names;
  std::string functions;
  for (const Prototype& prototype : prototypes) {
    // Headers rename some functions with macros: cudaGetDeviceProperties.
    functions +=
        fmt::format("#undef {0}\n__attribute__((weak)) {1} {0}({2}) {{\n{3}}}\n", prototype.name,
                    prototype.result, parameters_of(prototype), body_of(family, prototype, names));
  }
  // The result type is unknown; most functions return a status.
  for (const std::string& name : undeclared)
    functions += fmt::format(
        "#undef {0}\n__attribute__((weak)) {1} {0}() {{\n"
        "  optrace::emulated::unimplemented(\"{0}\");\n  return {2};\n}}\n",
        name, headers.empty() ? "int" : family.status, headers.empty() ? "1" : family.failure);
  // Without the library's headers, nothing can be declared with their types.
  const std::string own_header = headers.empty() || family.own_header.empty()
                                     ? ""
                                     : fmt::format("#include \"{}\"\n", family.own_header);
  return write_includes(headers) + own_header + std::string(kRecordingPreamble) +
         std::string(kPreamble) + "\nnamespace {\n" + names.text() +
         "}  // namespace\n\nextern \"C\" {\n" + functions + "}  // extern \"C\"\n";
}

}  // namespace optrace
