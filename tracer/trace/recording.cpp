#include "tracer/trace/recording.h"

#include <algorithm>

#include <fmt/format.h>

#include "platform/error.h"

namespace optrace {
namespace {

constexpr const char* kRunAgain =
    "Run the trace again. If it fails again, report it with the output of the target.";

[[noreturn]] void fail_with(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ExitStatus::failed,
              fmt::format("the recording {} can't be used: {}", path.string(), reason), kRunAgain);
}

MappedFile map_recording(const std::filesystem::path& path) {
  try {
    return MappedFile(path);
  } catch (const Error& error) {
    fail_with(path, error.what());
  }
}

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

void Recording::fail(const char* reason) const {
  fail_with(file_.path(), reason);
}

Recording::Recording(const std::filesystem::path& path) : file_(map_recording(path)) {
  Cursor cursor(file_.bytes());
  if (!cursor.take(header_) ||
      std::memcmp(header_.magic, recording::kMagic, sizeof header_.magic) != 0) {
    fail("it is not a recording");
  }
  if (header_.version != recording::kVersion) fail("it is of another version of the agent");
  auto bytes = cursor.rest();
  for (bool ended = false; !ended;) {
    Cursor at(bytes);
    recording::SectionHeader section{};
    if (!at.take(section)) fail("it is truncated");
    bytes = at.rest();
    const std::uint64_t padding = (8 - section.size % 8) % 8;
    if (section.size > bytes.size() || padding > bytes.size() - section.size) {
      fail("it is truncated");
    }
    ended = section.kind == recording::SectionKind::end;
    read_section(section.kind, bytes.first(section.size));
    bytes = bytes.subspan(section.size + padding);
  }
  std::vector<PlacedProbes>& probes = texts_.probes;
  std::ranges::sort(probes, {}, &PlacedProbes::first_id);
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const std::uint64_t end = std::uint64_t{probes[i].first_id} + probes[i].count;
    const std::uint64_t limit =
        i + 1 < probes.size() ? probes[i + 1].first_id : recording::kFirstPythonEvent;
    if (end > limit) fail("its probes overlap");
  }
  check_events();
}

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
                kRunAgain);
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
    case recording::SectionKind::thread:
    case recording::SectionKind::initial_stack:
    case recording::SectionKind::end:
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

void note_missing_python(nlohmann::json& meta, std::uint32_t missing) {
  if (missing == 0) return;
  const std::uint32_t times = missing & ~recording::kNoPythonEvents;
  const bool all = times != missing;
  note_shortfall(meta, "python_frames_off", all ? 1 : times);
  if (!all) {
    meta["warnings"].push_back(fmt::format(
        "Some Python frames are missing: the profile function of {} was replaced in a way that "
        "optrace cannot detect.",
        times == 1 ? std::string("a thread") : fmt::format("threads, {} times,", times)));
  }
}

void Recording::read_section(recording::SectionKind kind, std::span<const std::byte> bytes) {
  if (texts_.read(kind, bytes) || kind == recording::SectionKind::end) return;
  if (kind != recording::SectionKind::thread) fail("a section is of an unknown kind");
  read_thread(bytes);
}

void Recording::read_thread(std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  recording::Thread raw{};
  if (!cursor.take(raw)) fail("a thread is malformed");
  const auto rest = cursor.rest();
  const std::uint64_t most_frames = rest.size() / sizeof(recording::InitialFrame);
  const std::uint64_t most_events = rest.size() / sizeof(recording::Event);
  if (raw.initial_count > most_frames || raw.event_count > most_events ||
      raw.initial_count * sizeof(recording::InitialFrame) +
              raw.event_count * sizeof(recording::Event) !=
          rest.size()) {
    fail("a thread is malformed");
  }
  const auto initial = rest.first(raw.initial_count * sizeof(recording::InitialFrame));
  threads_.push_back({raw.id, raw.lost, Array<recording::InitialFrame>(initial),
                      Array<recording::Event>(rest.subspan(initial.size()))});
}

void Recording::check_events() const {
  for (const Thread& thread : threads_) {
    for (std::size_t i = 0; i < thread.events.size(); ++i) {
      const recording::Event event = thread.events[i];
      if (recording::is_caller(event.id)) continue;
      if (event.id > recording::kLastKind) fail("an event is of an unknown kind");
      if (event.id >= recording::kFirstPythonEvent && !of_python(event)) {
        if (event.id != recording::kArguments && event.id != recording::kReturnedValue &&
            event.line != 0 && event.line >= texts_.op_records.size()) {
          fail("an event names an unknown op record");
        }
        continue;
      }
      if (event.id >= recording::kFirstPythonEvent) {
        if (event.return_address >= texts_.python_functions.size()) {
          fail("an event names an unknown Python function");
        }
        continue;
      }
      const auto after =
          std::ranges::upper_bound(texts_.probes, event.id, {}, &PlacedProbes::first_id);
      if (after == texts_.probes.begin() ||
          event.id - std::prev(after)->first_id >= std::prev(after)->count) {
        fail("an event names an unknown probe");
      }
    }
  }
}

std::uint64_t Recording::nanoseconds(std::uint64_t ticks) const {
  if (ticks <= header_.start_ticks) return 0;
  const double span_ticks = header_.stop_ticks > header_.start_ticks
                                ? static_cast<double>(header_.stop_ticks - header_.start_ticks)
                                : 1.0;
  const double span_nanoseconds =
      header_.stop_nanoseconds > header_.start_nanoseconds
          ? static_cast<double>(header_.stop_nanoseconds - header_.start_nanoseconds)
          : 0.0;
  const double result =
      static_cast<double>(ticks - header_.start_ticks) / span_ticks * span_nanoseconds;
  // A wrong time-stamp counter must not overflow the conversion.
  constexpr double kMax = 9e18;
  return static_cast<std::uint64_t>(std::min(result, kMax));
}

}  // namespace optrace
