#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "platform/error.h"
#include "present/readable_numbers.h"
#include "python/in_process_tracer.h"
#include "python/python_check.h"
#include "python/python_values.h"
#include "python/recorded_trace.h"
#include "pytorch/functions/layers.h"
#include "report/json/detail_json.h"
#include "tracer/connection/message_contents_json.h"
#include "tracer/trace/trace_meta_json.h"

namespace optrace {
namespace {

namespace py = pybind11;

/// `optrace.Frame`: a node of a report, which it keeps alive.
class FrameView {
 public:
  FrameView(std::shared_ptr<const Report> report, const Frame& frame)
      : report_(std::move(report)), frame_(&frame) {}

  const Frame& operator*() const { return *frame_; }
  const Frame* operator->() const { return frame_; }

  std::vector<FrameView> children() const { return of(report_, frame_->children); }

  static std::vector<FrameView> of(const std::shared_ptr<const Report>& report,
                                   const std::vector<Frame>& frames) {
    std::vector<FrameView> views;
    views.reserve(frames.size());
    for (const Frame& frame : frames) views.emplace_back(report, frame);
    return views;
  }

 private:
  std::shared_ptr<const Report> report_;
  const Frame* frame_;
};

/// `optrace.Trace`: the calls in a `with optrace.trace()` block, or a file that was loaded.
class PythonTrace {
 public:
  explicit PythonTrace(InProcessOptions options) : options_(std::move(options)) {}
  explicit PythonTrace(std::unique_ptr<RecordedTrace> loaded)
      : loaded_(true), recorded_(std::move(loaded)) {}

  void start() {
    if (loaded_) {
      throw Error(ExitStatus::usage, "a trace that was loaded from a file can't be started",
                  "Create a new one: with optrace.trace() as t:");
    }
    InProcessTracer& tracer = InProcessTracer::instance();
    if (tracer.active()) {
      throw Error(ExitStatus::usage, "a trace is already running in this process",
                  "Traces can't be nested: stop that one first, or trace both together.");
    }
    const py::module_ helper = py::module_::import("optrace._current_torch");
    const py::dict described = helper.attr("describe")();
    const CurrentTorch torch{described["folder"].cast<std::string>(),
                             described["interpreter"].cast<std::string>(),
                             described["cuda"].cast<bool>()};
    meta_ = checked_torch(to_json_value(described["meta"]));
    meta_.device = torch.cuda ? "cuda" : "cpu";
    meta_.call = "optrace.trace() at " + helper.attr("place")().cast<std::string>();
    {
      const py::gil_scoped_release released;
      // While something is compiled, the program's signal handlers run and may raise, as Ctrl-C
      // does.
      tracer.prepare(torch, options_, BuildProgress([] {
                       const py::gil_scoped_acquire acquired;
                       if (PyErr_CheckSignals() != 0) throw py::error_already_set();
                     }));
    }
    recorded_.reset();
    thread_ = PyThread_get_thread_ident();
    process_ = ::getpid();
    running_ = true;
    helper.attr("start_watching")();
    try {
      tracer.start(options_);
    } catch (...) {
      running_ = false;
      helper.attr("stop_watching")();
      throw;
    }
  }

  void stop() {
    if (!running_) throw Error(ExitStatus::usage, "this trace is not running", "Start it first.");
    const py::module_ helper = py::module_::import("optrace._current_torch");
    if (process_ != ::getpid()) {
      helper.attr("stop_watching")();
      running_ = false;  // A child that was forked inside the block recorded nothing.
      InProcessTracer::instance();
      return;
    }
    if (thread_ != PyThread_get_thread_ident()) {
      throw Error(ExitStatus::usage, "a trace must be stopped by the thread that started it",
                  "Stop it in the thread that called start() or entered the with block.");
    }
    InProcessTracer& tracer = InProcessTracer::instance();
    tracer.stop();
    running_ = false;
    helper.attr("stop_watching")();
    try {
      {
        const py::gil_scoped_release released;
        tracer.finish();
      }
      read_tables(to_json_value(helper.attr("tables")(tracer.ops())), meta_);
      meta_.process.id = static_cast<std::uint64_t>(process_);
      recorded_ = std::make_unique<RecordedTrace>(tracer.take(std::move(meta_)));
    } catch (...) {
      tracer.abandon();
      throw;
    }
  }

  /// Returns the trace. Throws Error(usage) if there is none yet.
  RecordedTrace& recorded() const {
    if (recorded_) return *recorded_;
    if (running_ && process_ == ::getpid())
      throw Error(ExitStatus::usage, "the trace is still running", "Leave the with block first.");
    if (process_ != 0 && process_ != ::getpid()) {
      throw Error(ExitStatus::usage,
                  fmt::format("this process was forked from {} while that process was traced, and "
                              "did not record anything",
                              process_),
                  "Use the trace in that process, or start a trace in the child.");
    }
    throw Error(ExitStatus::usage, "nothing has been traced yet",
                "Run the code to trace in a block: with optrace.trace() as t:");
  }

 private:
  InProcessOptions options_;
  TraceMeta meta_;
  bool loaded_ = false;
  bool running_ = false;
  unsigned long thread_ = 0;
  pid_t process_ = 0;
  std::unique_ptr<RecordedTrace> recorded_;
};

void require_size(std::string_view name, std::uint64_t bytes, std::string_view usual) {
  constexpr std::uint64_t kMin = std::uint64_t{1} << 20;
  constexpr std::uint64_t kMax = std::uint64_t{1} << 36;
  if (bytes >= kMin && bytes <= kMax) return;
  throw Error(
      ExitStatus::usage, fmt::format("{}={} is not a valid size", name, bytes),
      fmt::format("Give at least 1 << 20 (1 MiB) and at most 1 << 36; {} is the default.", usual));
}

std::unique_ptr<PythonTrace> make_trace(const std::optional<std::string>& ops,
                                        const std::optional<std::string>& from_module,
                                        std::uint64_t skip, std::uint64_t count, bool timeline,
                                        bool op_records, bool python_frames, bool outer_frames,
                                        std::uint64_t buffer_bytes, std::uint64_t memory_bytes) {
  require_size("buffer_bytes", buffer_bytes, "32 << 20");
  require_size("memory_bytes", memory_bytes, "1 << 30");
  InProcessOptions options;
  options.collector.memory = std::make_shared<MemoryBudget>(memory_bytes);
  options.collector.selection = {ops.value_or(""), from_module.value_or(""), skip, count};
  options.collector.timeline = timeline;
  options.op_records = op_records;
  options.python_frames = python_frames;
  options.outer_frames = outer_frames;
  options.buffer_bytes = buffer_bytes;
  return std::make_unique<PythonTrace>(std::move(options));
}

std::string as_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace
}  // namespace optrace

PYBIND11_MODULE(_optrace, module) {
  namespace py = pybind11;
  using optrace::FrameView;
  using optrace::PythonTrace;
  using optrace::RecordedTrace;
  module.attr("__version__") = OPTRACE_VERSION;

  // NOLINTNEXTLINE(performance-unnecessary-value-param): pybind11 wants it so.
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const optrace::Error& error) {
      optrace::set_python_error(error);
    }
  });

  py::class_<FrameView>(module, "Frame")
      .def_property_readonly("layer",
                             [](const FrameView& it) { return optrace::name_of(it->layer); })
      .def_property_readonly("name", [](const FrameView& it) { return optrace::text(it->name); })
      .def_property_readonly("symbol",
                             [](const FrameView& it) -> py::object {
                               if (!it->symbol) return py::none();
                               return optrace::text(*it->symbol);
                             })
      .def_property_readonly("library",
                             [](const FrameView& it) { return optrace::text(it->library); })
      .def_property_readonly("op", [](const FrameView& it) { return optrace::text(it->op); })
      .def_property_readonly("source", [](const FrameView& it) { return optrace::source_of(*it); })
      .def_property_readonly("thread", [](const FrameView& it) { return it->thread; })
      .def_property_readonly("calls", [](const FrameView& it) { return it->calls; })
      .def_property_readonly(
          "detail",
          [](const FrameView& it) { return optrace::python_of_json(optrace::detail_json(*it)); })
      .def_property_readonly("children", &FrameView::children)
      .def("__repr__", [](const FrameView& it) {
        return optrace::text(fmt::format("<optrace.Frame {}: {}, {}>", optrace::name_of(it->layer),
                                         it->name, optrace::counted(it->calls, "call")));
      });

  optrace::define_check(module);
  py::class_<PythonTrace>(module, "Trace")
      .def("start", &PythonTrace::start)
      .def("stop", &PythonTrace::stop)
      .def("__enter__",
           [](const py::object& self) {
             self.cast<PythonTrace&>().start();
             return self;
           })
      .def("__exit__", [](PythonTrace& it, const py::args&) { it.stop(); })
      .def(
          "report",
          [](const PythonTrace& it, const std::string& format, bool all) {
            if (format != "text" && format != "json") {
              throw optrace::Error(
                  optrace::ExitStatus::usage,
                  fmt::format("format={} is not a format", optrace::as_text(format)),
                  "Use format=\"text\" or format=\"json\".");
            }
            RecordedTrace& trace = it.recorded();
            std::string text;
            {
              const py::gil_scoped_release released;
              text = format == "json" ? trace.json(all) : trace.text(all);
            }
            return optrace::text(text);
          },
          py::arg("format") = "text", py::kw_only(), py::arg("all") = false)
      .def(
          "to_json",
          [](const PythonTrace& it, bool all) {
            RecordedTrace& trace = it.recorded();
            std::string text;
            {
              const py::gil_scoped_release released;
              text = trace.json(all);
            }
            return optrace::text(text);
          },
          py::kw_only(), py::arg("all") = false)
      .def(
          "check",
          [](const PythonTrace& it, const py::object& rules, bool allow_unknown, bool all) {
            const std::vector<optrace::Rule> expected = optrace::rules_of(rules);
            RecordedTrace& trace = it.recorded();
            const py::gil_scoped_release released;
            return optrace::PythonCheck(
                trace.report(false),
                trace.check(expected, {.allow_unknown = allow_unknown, .all = all}));
          },
          py::arg("rules"), py::kw_only(), py::arg("allow_unknown") = false, py::arg("all") = false)
      .def_property_readonly("frames",
                             [](const PythonTrace& it) {
                               RecordedTrace& trace = it.recorded();
                               std::shared_ptr<const optrace::Report> report;
                               {
                                 const py::gil_scoped_release released;
                                 report = trace.report(false);
                               }
                               return FrameView::of(report, report->roots);
                             })
      .def(
          "save",
          [](const PythonTrace& it, const py::object& path) {
            const std::filesystem::path file = optrace::path_of(path);
            const RecordedTrace& trace = it.recorded();
            const py::gil_scoped_release released;
            trace.save(file);
          },
          py::arg("path"))
      .def("_repr_html_", [](const PythonTrace& it) {
        RecordedTrace& trace = it.recorded();
        std::string text;
        {
          const py::gil_scoped_release released;
          text = trace.html();
        }
        return optrace::text(text);
      });

  module.def("trace", &optrace::make_trace, py::kw_only(), py::arg("ops") = py::none(),
             py::arg("from_module") = py::none(), py::arg("skip") = 0, py::arg("count") = 0,
             py::arg("timeline") = false, py::arg("op_records") = true,
             py::arg("python_frames") = true, py::arg("outer_frames") = true,
             py::arg("buffer_bytes") = optrace::InProcessOptions{}.buffer_bytes,
             py::arg("memory_bytes") = std::uint64_t{optrace::MemoryBudget::kDefault});
  // For the pytest plugin, which checks rules before it runs the test that they apply to.
  module.def("require_rules", [](const py::object& rules) { optrace::rules_of(rules); });
  module.def(
      "load",
      [](const py::object& path) {
        const std::filesystem::path file = optrace::path_of(path);
        const py::gil_scoped_release released;
        return std::make_unique<PythonTrace>(RecordedTrace::read(file));
      },
      py::arg("path"));

  py::module_::import("atexit").attr("register")(
      py::cpp_function([] { optrace::InProcessTracer::instance().close(); }));
  const auto tracer = &optrace::InProcessTracer::instance;
  py::module_::import("os").attr("register_at_fork")(
      py::arg("before") = py::cpp_function([tracer] { tracer().before_fork(); }),
      py::arg("after_in_parent") = py::cpp_function([tracer] { tracer().after_fork_in_parent(); }),
      py::arg("after_in_child") = py::cpp_function([tracer] { tracer().after_fork_in_child(); }));
}
