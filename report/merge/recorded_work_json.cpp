#include <nlohmann/json.hpp>

#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"
#include "pytorch/symbols/symbol_name.h"
#include "pytorch/values/values_json.h"
#include "report/merge/recorded_work.h"

namespace optrace {

std::optional<RecordedWork> recorded_work(const std::string& record) {
  nlohmann::json described = read_json(record);
  if (!described.is_object() || !described.contains("stream")) return std::nullopt;
  RecordedWork work;
  work.device = count_at(described, "device");
  work.stream = count_at(described, "stream");
  std::string& name = work.kind.name;
  name = text_at(described, "kind");
  const bool is_kernel = name == "kernel";
  if (is_kernel) name = qualified_name(text_at(described, "kernel"));
  if (const std::string direction = text_at(described, "direction"); !direction.empty())
    name += " " + direction;
  for (const char* const shown : {"kind", "kernel", "stream", "device", "call"})
    described.erase(shown);
  if (is_kernel)
    work.kind.details = launch_of(described);
  else
    work.kind.details = library_call_of(described);
  return work;
}

}  // namespace optrace
