#pragma once

#include "target/interface/recording_format.h"
#include "tracer/collect/function_table.h"
#include "tracer/collect/tick_clock.h"
#include "tracer/trace/recording.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Converts recorded events to those of a trace.
class EventConverter {
 public:
  /// All must outlive this object.
  EventConverter(RecordedTexts& texts, FunctionTable& table, const TickClock& clock)
      : texts_(texts), table_(table), clock_(clock) {}

  /// Sets all fields of `event`. Returns false if the recorded event is invalid.
  bool convert(const recording::Event& raw, Event& event);

  /// True if some event lacks its position (lacks_position()).
  bool lacks_positions() const { return lacks_positions_; }

 private:
  bool convert_rest(const recording::Event& raw, Event& event);

  RecordedTexts& texts_;
  FunctionTable& table_;
  const TickClock& clock_;
  bool lacks_positions_ = false;
};

}  // namespace optrace
