
#include <nlohmann/json.hpp>

#include "platform/text/json_fields.h"
#include "platform/text/json_writer.h"
#include "report/formats/compiled_output.h"
#include "report/json/report_parts_json.h"

namespace optrace {

std::string compiled_json(const Report& report) {
  nlohmann::ordered_json object;
  object["schema"] = "optrace.compiled/1";
  object["program"] = report.recording.call;
  object["torch"] = to_json(report.torch);
  object["device"] = report.device;
  object["dry_run"] = to_json(report.dry_run);
  object["exit_status"] = report.recording.exit_status;
  object["compilations"] = to_json(report.compilations);
  return write_json(object, 1) + '\n';
}

}  // namespace optrace
