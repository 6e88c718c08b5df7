// The agent's raw recording. Its version is corrected here, so that a new version needs no new
// corpus.
#include "tracer/trace/recording.h"

#include "target/interface/recording_format.h"
#include "tests/fuzz/fuzz_input.h"

using namespace optrace;

namespace {

void read_all(Recording& recording) {
  for (const Recording::Thread& thread : recording.threads()) {
    for (std::size_t i = 0; i < thread.initial.size(); ++i) fuzz::use(thread.initial[i]);
    for (std::size_t i = 0; i < thread.events.size(); ++i) {
      const recording::Event raw = thread.events[i];
      fuzz::use(recording.nanoseconds(raw.ticks));
      fuzz::use(recording.modules().at(raw.return_address));
      if (!of_python(raw)) continue;
      const Event event = python_event(raw, recording.positions());
      fuzz::use(recording.positions()[event.line]);
    }
  }
  for (const auto& function : recording.python_functions()) fuzz::use_text(function.name);
  for (const std::string& record : recording.op_records()) fuzz::use_text(record);
}

}  // namespace

namespace {

std::string current(std::string bytes) {
  constexpr std::uint32_t kVersion = recording::kVersion;
  if (bytes.size() >= sizeof(recording::Header))
    std::memcpy(&bytes[offsetof(recording::Header, version)], &kVersion, sizeof kVersion);
  return bytes;
}

}  // namespace

OPTRACE_READER(recording) {
  const fuzz::InputFile file(current(std::string(fuzz::Input(data, size).rest())));
  fuzz::refuses_or_reads([&] {
    Recording recording(file.path());
    read_all(recording);
  });
  return 0;
}
