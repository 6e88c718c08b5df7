#include "tracer/trace/op_names.h"

#include <nlohmann/json.hpp>

#include "platform/text/json_reader.h"

namespace optrace {

const OpNames::Op& OpNames::at(std::uint32_t record) {
  static const Op kNameless;
  if (record >= records_.size()) return kNameless;
  while (known_.size() <= record) known_.emplace_back();
  Known& op = known_[record];
  if (op.read || records_[record].empty()) return op;
  op.read = true;
  const auto json = read_json(records_[record]);
  if (!json.is_object()) return op;
  const auto name = json.find("op");
  if (name == json.end() || !name->is_string()) return op;
  op.name = name->get<std::string>();
  const auto schema = json.find("schema");
  if (schema != json.end() && schema->is_string())
    op.first = first_.try_emplace(op.name, record).first->second;
  return op;
}

}  // namespace optrace
