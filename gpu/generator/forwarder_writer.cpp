#include "gpu/generator/forwarder_writer.h"

#include <fmt/core.h>

#include "gpu/generator/call_recording.h"
#include "gpu/generator/call_rules.h"
#include "gpu/generator/definition_writer.h"

namespace optrace {
namespace {

/// A failure is recorded, too, with the library's error number.
std::string forwarder(const DeviceFamily& family, const Prototype& prototype,
                      EnumeratorNames& names) {
  std::string types, arguments;
  for (std::size_t i = 0; i < prototype.parameters.size(); ++i) {
    types += fmt::format("{}Type<{}>", i == 0 ? "" : ", ", prototype.parameters[i].type);
    arguments += fmt::format("{}a{}", i == 0 ? "" : ", ", i);
  }
  return fmt::format(
      "#undef {0}\n{1} (*original_{0})({2}) = nullptr;\n{1} forward_{0}({3}) {{\n"
      "  const optrace::emulated::CalledAt here(__builtin_frame_address(0));\n{4}"
      "  const {1} result = original_{0}({5});\n"
      "  if (result != {6}) optrace::emulated::record_failure(\"{0}\", "
      "static_cast<int>(result), \"\");\n  return result;\n}}\n",
      prototype.name, prototype.result, types, parameters_of(prototype),
      recording_of(prototype, names), arguments, family.success);
}

}  // namespace

std::string write_forwarders(const DeviceFamily& family, std::span<const std::string> headers,
                             std::span<const Prototype> prototypes) {
  EnumeratorNames names;
  std::string functions, rows;
  for (const Prototype& prototype : prototypes) {
    const CallBehaviour behaviour = decide(family, prototype).behaviour;
    const bool computes =
        behaviour == CallBehaviour::compute || behaviour == CallBehaviour::implemented;
    if (prototype.result != family.status || !computes) continue;
    functions += forwarder(family, prototype, names);
    rows += fmt::format(
        "    {{\"{0}\", reinterpret_cast<void*>(&forward_{0}), "
        "reinterpret_cast<void**>(&original_{0})}},\n",
        prototype.name);
  }
  std::string text = write_includes(headers) + std::string(kRecordingPreamble) +
                     "\n#include \"gpu/recorder/forwards.h\"\n";
  if (rows.empty()) return text;
  return text + fmt::format(
                    "\nnamespace {{\n{}{}\nconst optrace_agent_redirection all[] = {{\n{}}};\n"
                    "[[maybe_unused]] const bool added = optrace::cuda_calls::add("
                    "{{all, sizeof all / sizeof *all}});\n}}  // namespace\n",
                    names.text(), functions, rows);
}

}  // namespace optrace
