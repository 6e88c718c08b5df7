#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <pybind11/pybind11.h>

#include "platform/error.h"
#include "report/model/report.h"

namespace optrace {

/// Text that came from a traced program as a `str`: bytes that are no UTF-8 become U+FFFD.
pybind11::str text(const std::string& bytes);

/// The same; None for nothing.
pybind11::object text(const std::optional<std::string>& bytes);

/// A JSON value as dict, list and so on.
pybind11::object to_python(const nlohmann::json& value);

/// The other way round, for values that came from JSON or could go there.
nlohmann::json to_json_value(const pybind11::handle& value);

/// A value as Python writes it, for a message: not long, and UTF-8.
std::string described(const pybind11::handle& value);

/// What docs/python.md says of Frame.source.
pybind11::object source_of(const Frame& frame);

/// str, bytes or os.PathLike.
std::filesystem::path path_of(const pybind11::object& path);

/// Sets optrace.Error as the pending exception, or KeyboardInterrupt.
void set_python_error(const Error& error);

}  // namespace optrace
