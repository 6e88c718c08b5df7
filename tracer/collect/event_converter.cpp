#include "tracer/collect/event_converter.h"

#include <cstdint>

namespace optrace {

bool EventConverter::convert(const recording::Event& raw, Event& event) {
  event = {};
  if (of_python(raw)) {
    lacks_positions_ = lacks_positions_ || lacks_position(raw);
    event = python_event(raw, texts_.positions);
  }
  event.stack_pointer = raw.stack_pointer;
  event.time = clock_.nanoseconds(raw.ticks);
  if (of_python(raw)) return raw.return_address < texts_.python_functions.size();
  if (raw.id < recording::kFirstPythonEvent) {
    if (!table_.has_probe(raw.id)) return false;
    event.what = table_.function_of_probe(raw.id);
    const FunctionTable::Caller caller = table_.find_caller(raw.return_address);
    event.caller = caller.function;
    event.return_address = caller.return_address;
    return true;
  }
  if (recording::is_caller(raw.id)) return table_.read_caller(raw, event);
  if (raw.id == recording::kReturnedValue) return table_.read_returned(raw, event);
  return convert_rest(raw, event);
}

bool EventConverter::convert_rest(const recording::Event& raw, Event& event) {
  if (raw.id > recording::kLastKind) return false;
  constexpr auto kFirst = static_cast<std::uint32_t>(EventKind::python_call);
  event.kind = static_cast<EventKind>(raw.id - recording::kFirstPythonEvent + kFirst);
  event.return_address = raw.return_address;
  if (raw.id == recording::kArguments) {
    event.what = 0;
    event.line = raw.line;
  } else {
    event.what = raw.line < texts_.op_records.size() ? raw.line : 0;
  }
  return true;
}

}  // namespace optrace
