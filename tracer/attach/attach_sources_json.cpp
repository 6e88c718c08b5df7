#include <filesystem>
#include <optional>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/files/installation.h"
#include "platform/files/whole_file.h"
#include "tracer/attach/attach_sources.h"
#include "tracer/connection/message_contents_json.h"

namespace optrace {

std::string read_target_source(const char* name) {
  const std::filesystem::path path = data_folder() / "target" / name;
  const std::optional<std::string> text = read_file(path);
  if (!text) {
    throw Error(ExitStatus::failed, fmt::format("{} can't be read", path.string()),
                "Reinstall optrace.");
  }
  return *text;
}

std::string line_of_sources() {
  nlohmann::json list = nlohmann::json::array();
  for (const char* const name :
       {"protocol", "problem", "connection", "op_records", "device_activity", "agent",
        "compiled/schedule", "compiled/kernel_origins", "compiled/graph_modules",
        "compiled/cpp_wrappers", "compiled/triton_kernels", "compiled/compilations", "description",
        "attached"}) {
    list.push_back({name, read_target_source(fmt::format("optrace_target/{}.py", name).c_str())});
  }
  return json_line(list);
}

// JSON's strings are valid literals.
std::string python_literal(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true);
}

}  // namespace optrace
