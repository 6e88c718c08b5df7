#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "platform/error.h"

namespace optrace {

/// The outcome of a check.
enum class CheckState : std::uint8_t {
  ok,
  limited,  ///< optrace works without it, but something is missing or less exact.
  missing,  ///< Nothing can be traced.
  skipped,  ///< Not checked, because something that it requires is missing.
};

/// Returns `ok`, `limited`, `missing` or `skipped`.
std::string_view name_of(CheckState state);

/// A fact for programs.
struct DoctorFact {
  std::string name;
  std::variant<std::string, bool, std::int64_t, std::uint64_t, std::vector<DoctorFact>> value;
};

/// One thing that optrace needs or can use, and what was found.
struct DoctorCheck {
  std::string_view id;  ///< "torch"; in text, it is also the title.
  CheckState state = CheckState::ok;
  std::string found{};   ///< A sentence without a full stop.
  std::string remedy{};  ///< What to do unless `state` is ok: a command or sentences.
  bool tested = false;   ///< True for a self-test: optrace did the thing.
  std::vector<DoctorFact> facts{};
};

using DoctorProgress = std::function<void(std::string_view)>;

/// Returns a check that failed with `error`.
DoctorCheck failed_check(std::string_view id, CheckState state, const Error& error);

/// Returns true unless something essential is missing.
bool is_usable(const std::vector<DoctorCheck>& checks);

}  // namespace optrace
