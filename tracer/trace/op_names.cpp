#include "tracer/trace/op_names.h"

#include <variant>

#include "tracer/trace/op_record.h"

namespace optrace {

const OpNames::Op& OpNames::at(std::uint32_t record) {
  static const Op kNameless;
  if (record >= records_.size()) return kNameless;
  while (known_.size() <= record) known_.emplace_back();
  Known& op = known_[record];
  if (op.read || records_[record].empty()) return op;
  op.read = true;
  const OpRecord read = read_op_record(records_[record]);
  if (const auto* const call = std::get_if<OpCallRecord>(&read)) {
    op.name = call->op;
    if (!call->schema.empty()) op.first = first_.try_emplace(op.name, record).first->second;
  }
  return op;
}

}  // namespace optrace
