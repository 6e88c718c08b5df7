#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>
#include <pybind11/pybind11.h>

#include "platform/error.h"
#include "report/model/report.h"

namespace optrace {

/// Converts text of a traced program to a `str`. Bytes that are not UTF-8 become U+FFFD.
pybind11::str text(const std::string& bytes);

/// Same, but returns None for nothing.
pybind11::object text(const std::optional<std::string>& bytes);

/// Converts JSON text to dict, list and so on.
pybind11::object python_of_json(const std::string& json);

/// Converts a Python value that came from JSON or can be represented in it.
nlohmann::json to_json_value(const pybind11::handle& value);

/// Returns the repr of a value for a message, in UTF-8 and shortened.
std::string described(const pybind11::handle& value);

/// Returns the value of Frame.source, described in docs/python.md.
pybind11::object source_of(const Frame& frame);

/// Accepts str, bytes and os.PathLike.
std::filesystem::path path_of(const pybind11::object& path);

/// Sets optrace.Error, or KeyboardInterrupt, as the pending exception.
void set_python_error(const Error& error);

}  // namespace optrace
