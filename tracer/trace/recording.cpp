#include "tracer/trace/recording.h"

#include <cstring>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "platform/error.h"

namespace optrace {
namespace {

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

/// Reads a T and then texts from the front of a section.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  bool take(T& value) {
    if (bytes_.size() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return true;
  }

  bool take(std::string& text, std::uint32_t size) {
    if (bytes_.size() < size) return false;
    text.assign(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return true;
  }

  bool at_end() const { return bytes_.empty(); }
  std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

void ModuleList::add(LoadedModule module) {
  const LoadedModule*& place = by_first_[module.first];
  if (place != nullptr && place->path == module.path && place->last == module.last) return;
  modules_.push_back(std::move(module));
  place = &modules_.back();
}

const LoadedModule* ModuleList::at(std::uint64_t address) const {
  const auto after = by_first_.upper_bound(address);
  if (after == by_first_.begin()) return nullptr;
  const LoadedModule* const module = std::prev(after)->second;
  return address < module->last ? module : nullptr;
}

bool RecordedTexts::read(recording::SectionKind kind, std::span<const std::byte> bytes) {
  const auto malformed = [](const char* what) {
    throw Error(ExitStatus::failed, fmt::format("the agent's recording is corrupt: {}", what),
                "Run the trace again. If it fails again, report it with the output of the target.");
  };
  Cursor cursor(bytes);
  switch (kind) {
    case recording::SectionKind::module: {
      recording::Module raw{};
      LoadedModule module;
      if (!cursor.take(raw) || !cursor.take(module.path, raw.path_size) || !cursor.at_end() ||
          raw.build_id_size > sizeof raw.build_id || raw.first > raw.last) {
        malformed("a module is malformed");
      }
      module.bias = raw.bias;
      module.first = raw.first;
      module.last = raw.last;
      module.build_id = hex(std::span(raw.build_id).first(raw.build_id_size));
      modules.add(std::move(module));
      return true;
    }
    case recording::SectionKind::probes: {
      recording::ProbeRange raw{};
      PlacedProbes placed;
      if (!cursor.take(raw) || !cursor.take(placed.plan_path, raw.path_size) || !cursor.at_end() ||
          raw.placed > raw.count) {
        malformed("a list of probes is malformed");
      }
      placed.first_id = raw.first_id;
      placed.count = raw.count;
      placed.placed = raw.placed;
      probes.push_back(std::move(placed));
      return true;
    }
    case recording::SectionKind::python_function: {
      recording::PythonFunction raw{};
      PythonFunction function;
      if (!cursor.take(raw) || !cursor.take(function.name, raw.name_size) ||
          !cursor.take(function.file, raw.file_size) || cursor.rest().size() != raw.table_size) {
        malformed("a Python function is malformed");
      }
      function.first_line = raw.first_line;
      positions.add_function(raw.minor_version, raw.first_line, cursor.rest());
      python_functions.push_back(std::move(function));
      return true;
    }
    case recording::SectionKind::op_record: {
      recording::OpRecord raw{};
      constexpr std::uint32_t kMaxRecords = 1U << 21;  // 64 MiB of empty strings.
      if (!cursor.take(raw) || raw.id >= kMaxRecords) malformed("an op record is malformed");
      if (raw.id >= op_records.size()) op_records.resize(raw.id + 1);
      const auto text = cursor.rest();
      op_records[raw.id].assign(reinterpret_cast<const char*>(text.data()), text.size());
      return true;
    }
    case recording::SectionKind::initial_stack:
      break;
  }
  return false;
}

bool of_python(const recording::Event& raw) {
  return (raw.id >= recording::kFirstPythonEvent && raw.id <= recording::kBuiltinReturn) ||
         raw.id == recording::kPythonPosition || raw.id == recording::kPythonRan;
}

Event python_event(const recording::Event& raw, PythonPositions& positions) {
  constexpr auto kFirst = static_cast<std::uint32_t>(EventKind::python_call);
  Event event;
  event.kind = static_cast<EventKind>(raw.id - recording::kFirstPythonEvent + kFirst);
  event.what = static_cast<std::uint32_t>(raw.return_address);
  event.line = raw.id == recording::kPythonPosition ? positions.at(raw.return_address, raw.line)
                                                    : positions.of_line(raw.line);
  return event;
}

bool lacks_position(const recording::Event& raw) {
  return raw.line != 0 && raw.id == recording::kBuiltinCall;
}

std::string positions_warning() {
  return "Operators and other implicit calls of Python have no line: this interpreter's frames "
         "have a layout that differs from those of CPython 3.9 to 3.14.";
}

void add_python_calls(Trace& trace, const std::vector<std::uint32_t>& counted) {
  if (counted.empty()) return;
  std::vector<std::int64_t> beyond(counted.begin(), counted.end());
  for (const TracePath& path : trace.paths)
    if (path.kind == PathKind::python && path.what < beyond.size())
      beyond[path.what] -= static_cast<std::int64_t>(path.calls);
  std::map<std::string, std::int64_t> by_name;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const PythonFunction& function = trace.python_functions[i];
    const bool uncounted = counted[i] == recording::kUncounted;
    if (uncounted) beyond[i] -= counted[i];
    // A module is no function and has a name like `<module>`; the body of a class has the name of
    // the class, but is no call of it.
    if (function.file.empty() || (uncounted && function.name.ends_with('>'))) continue;
    by_name[function.name] += beyond[i];
  }
  std::erase_if(by_name, [](const auto& one) { return one.second == 0; });
  trace.meta.python_calls_beyond_paths = std::move(by_name);
}

void add_missing_python(TraceMeta& meta, std::uint32_t missing) {
  if (missing == 0) return;
  const std::uint32_t times = missing & ~recording::kNoPythonEvents;
  const bool all = times != missing;
  meta.shortfalls["python_frames_off"] += all ? 1 : times;
  if (!all) {
    meta.warnings.push_back(fmt::format(
        "Some Python frames are missing: the profile function of {} was replaced in a way that "
        "optrace cannot detect.",
        times == 1 ? std::string("a thread") : fmt::format("threads, {} times,", times)));
  }
}

}  // namespace optrace
