#include "python/python_values.h"

#include "platform/text/json_reader.h"
#include "platform/text/printable_text.h"

namespace optrace {

namespace py = pybind11;

py::str text(const std::string& bytes) {
  const std::string valid = valid_utf8(bytes);
  PyObject* const made =
      PyUnicode_DecodeUTF8(valid.data(), static_cast<Py_ssize_t>(valid.size()), nullptr);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(made);
}

py::object text(const std::optional<std::string>& bytes) {
  if (bytes) return text(*bytes);
  return py::none();
}

// Uses Python's own parser, which limits the nesting depth: a value may be nested too deeply for
// this thread's stack.
py::object python_of_json(const std::string& json) {
  return py::module_::import("json").attr("loads")(text(json));
}

nlohmann::json to_json_value(const py::handle& value) {
  return read_json_or_throw(py::module_::import("json").attr("dumps")(value).cast<std::string>());
}

std::string described(const py::handle& value) {
  constexpr std::size_t kMax = 100;  // Characters.
  const py::str whole = py::repr(value);
  const py::object shown = py::len(whole) <= kMax
                               ? py::object(whole)
                               : whole[py::slice(0, kMax, 1)].cast<py::str>() + py::str("...");
  return shown.attr("encode")("utf-8", "backslashreplace").cast<std::string>();
}

py::object source_of(const Frame& frame) {
  if (!frame.source) return py::none();
  const FrameSource& source = *frame.source;
  const auto if_any = [](const std::string& word) -> py::object {
    if (word.empty()) return py::none();
    return text(word);
  };
  py::dict made;
  // Adds whether a line is exact, and its bounds if there are some.
  const auto state = [&made](const char* exact, const char* interval, bool known,
                             const std::optional<LineInterval>& approximate) {
    made[exact] = known ? py::object(py::bool_(!approximate)) : py::object(py::none());
    if (known && approximate && approximate->first != 0) {
      py::list bounds;
      bounds.append(approximate->first);
      bounds.append(approximate->last);
      made[interval] = bounds;
    }
  };
  made["file"] = if_any(source.file);
  made["line"] = source.line == 0 ? py::object(py::none()) : py::object(py::int_(source.line));
  state("exact", "interval", source.line != 0, source.approximate);
  made["call_line"] =
      source.call_line ? py::object(py::int_(*source.call_line)) : py::object(py::none());
  state("call_exact", "call_interval", source.call_line.has_value(), source.call_approximate);
  made["call_range"] = py::none();
  if (const std::optional<CallRange>& range = source.call_range) {
    py::dict of_call;
    of_call["column"] = range->column;
    of_call["end_line"] = range->end_line;
    of_call["end_column"] = range->end_column;
    made["call_range"] = of_call;
  }
  made["url"] = if_any(source.url);
  if (source.debug_info) made["debug_info"] = true;
  return made;
}

std::filesystem::path path_of(const py::object& path) {
  const py::object bytes = py::module_::import("os").attr("fsencode")(path);
  return std::filesystem::path(bytes.cast<std::string>());
}

void set_python_error(const Error& error) {
  if (error.status() == ExitStatus::interrupted) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    return;
  }
  const py::object type = py::module_::import("optrace._error").attr("Error");
  const py::object made =
      type(text(printable_lines(error.what())), text(printable_lines(error.remedy())));
  PyErr_SetObject(type.ptr(), made.ptr());
}

}  // namespace optrace
