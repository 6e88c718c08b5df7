#include <cstdint>

#include <nlohmann/json.hpp>

#include "platform/text/json_writer.h"
#include "report/formats/compiled_output.h"
#include "report/model/json_fields.h"

namespace optrace {

std::string compiled_json(const Report& report) {
  nlohmann::ordered_json object;
  object["schema"] = "optrace.compiled/1";
  object["program"] = text_at(report.meta, "call");
  object["torch"] = report.torch;
  object["device"] = report.device;
  object["dry_run"] = report.dry_run;
  object["exit_status"] = count_at(report.meta, "exit_status");
  object["compilations"] =
      report.compilations.is_array() ? report.compilations : nlohmann::json::array();
  return write_json(object, 1) + '\n';
}

}  // namespace optrace
