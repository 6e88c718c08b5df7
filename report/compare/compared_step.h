#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "report/model/report_reader.h"

namespace optrace {

/// Returns the part of a qualified name after its last `:` or `.`.
std::string_view last_part(std::string_view name);

/// Returns true for torchgen's functions between the dispatcher and a kernel: `wrapper_CPU__add`.
/// Their presence depends on inlining, and the dispatcher's frame has the same information.
bool is_wrapper(const Frame& frame);

/// Returns the op of a dispatcher frame; null if it is unknown, or for a frame of another layer.
const std::string* dispatched_op(const Frame& frame);
inline bool is_dispatched(const Frame& frame) {
  return dispatched_op(frame) != nullptr;
}

/// Returns true for a device kernel, and for a call that makes a library work.
bool is_work(const Frame& frame);

/// Returns the op of a dispatcher frame, else the function's short name.
std::string step_name(const Frame& frame);

/// Numbers steps. Names that differ only in template arguments have the same number.
class StepKeys {
 public:
  /// Returns equal keys for frames that are the same step: same layer, and same op or name. The
  /// frame must outlive the object.
  std::uint64_t key_of(const Frame& frame);

 private:
  std::uint64_t number_of(std::string_view name);
  std::uint64_t short_number_of(const std::string& name);

  std::unordered_map<std::string, std::uint64_t> numbers_;
  // The keys are views into the reports.
  std::unordered_map<std::string_view, std::uint64_t> short_numbers_;
};

/// Selects the frames that are compared. All others only lead to them.
class StepFilter {
 public:
  /// `everything`: all frames but wrappers are steps.
  explicit StepFilter(bool everything) : everything_(everything) {}

  bool is_step(const Frame& frame) const;

 private:
  bool everything_;
};

}  // namespace optrace
