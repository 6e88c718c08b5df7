// The memory that a traced process shares. An input is a sequence of the process's writes and the
// command's reads.
#include <optional>

#include "platform/files/private_folder.h"
#include "target/interface/recording_format.h"
#include "tests/fuzz/fuzz_input.h"
#include "tracer/collect/collector.h"

using namespace optrace;
namespace r = optrace::recording;

namespace {

constexpr std::uint32_t kChunks = 3;
constexpr std::uint64_t kArena = 16UL * 1024;
constexpr std::uint64_t kChunksAt = r::kChunkSize + kArena;
constexpr std::uint64_t kSize = kChunksAt + kChunks * r::kChunkSize;

class Process {
 public:
  Process() : file_("") {
    if (::ftruncate(file_.descriptor(), static_cast<off_t>(kSize)) != 0) __builtin_trap();
    base_ = static_cast<char*>(
        ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file_.descriptor(), 0));
    std::ranges::copy(r::kRegionMagic, header().magic);
    header().version = r::kRegionVersion;
    header().process = static_cast<std::uint32_t>(::getpid());
    header().size = kSize;
    header().arena_offset = r::kChunkSize;
    header().arena_size = kArena;
    header().chunks_offset = kChunksAt;
    header().chunk_count = kChunks;
    header().recording = 1;
    header().start_ticks = 1000;
    header().start_nanoseconds = 1;
    header().stop_ticks = 1'000'000'000;
    header().stop_nanoseconds = 1'000'000'001;
  }
  ~Process() { ::munmap(base_, kSize); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int descriptor() const { return file_.descriptor(); }
  r::RegionHeader& header() const { return *reinterpret_cast<r::RegionHeader*>(base_); }

  void write(std::uint64_t at, std::string_view bytes) const {
    at %= kSize;
    std::memcpy(base_ + at, bytes.data(), std::min<std::uint64_t>(bytes.size(), kSize - at));
  }
  void add_section(r::SectionKind kind, std::string_view content) const {
    const r::SectionHeader head{kind, 0, content.size()};
    const std::uint64_t at = header().arena_used;
    if (at + sizeof head + content.size() + 8 > kArena) return;
    write(r::kChunkSize + at, {reinterpret_cast<const char*>(&head), sizeof head});
    write(r::kChunkSize + at + sizeof head, content);
    header().arena_used = at + sizeof head + (content.size() + 7) / 8 * 8;
  }
  /// Appends an event to a chunk. Makes the chunk owned if it is free.
  void add_event(std::uint32_t chunk, r::Event event) {
    chunk %= kChunks;
    const std::uint64_t at = kChunksAt + chunk * r::kChunkSize;
    auto& head = *reinterpret_cast<r::ChunkHeader*>(base_ + at);
    if (head.state == 0) {
      head = {.state = 1,
              .thread = chunk + 1,
              .order = chunk + 1,
              .lost = 0,
              .round = 0,
              .first = chunk + 1};
    }
    const std::uint64_t place = (++events_[chunk]) * sizeof event;
    if (place + sizeof event <= r::kChunkSize)
      write(at + place, {reinterpret_cast<const char*>(&event), sizeof event});
  }
  void seal(std::uint32_t chunk) const {
    reinterpret_cast<r::ChunkHeader*>(base_ + kChunksAt + chunk % kChunks * r::kChunkSize)->state =
        2;
  }

 private:
  fuzz::InputFile file_;
  char* base_ = nullptr;
  std::uint64_t events_[kChunks] = {};
};

enum class Step : std::uint8_t { section, event, whole_event, seal, write, look, last = look };

/// Returns an event with one byte of input per field.
r::Event short_event(fuzz::Input& input) {
  constexpr std::uint32_t kKinds = r::kLastKind - r::kFirstPythonEvent + 1;
  return {.id = r::kFirstPythonEvent + input.take<std::uint8_t>() % kKinds,
          .line = input.take<std::uint8_t>(),
          .stack_pointer = 0x7000 + 16ULL * input.take<std::uint8_t>(),
          .return_address = input.take<std::uint8_t>(),
          .ticks = 2000 + 100ULL * input.take<std::uint8_t>()};
}

void follow(fuzz::Input& input, Process& process, std::optional<Collector>& collector,
            ProbeSession& session) {
  while (!input.empty()) {
    const auto step =
        static_cast<Step>(input.take<std::uint8_t>() % (static_cast<std::uint8_t>(Step::last) + 1));
    switch (step) {
      case Step::section: {
        const auto kind = static_cast<r::SectionKind>(input.take<std::uint8_t>());
        process.add_section(kind, input.take_sized());
        break;
      }
      case Step::event: {
        const auto chunk = input.take<std::uint8_t>();
        process.add_event(chunk, short_event(input));
        break;
      }
      case Step::whole_event: {
        const auto chunk = input.take<std::uint8_t>();
        process.add_event(chunk, input.take<r::Event>());
        break;
      }
      case Step::seal:
        process.seal(input.take<std::uint8_t>());
        break;
      case Step::write: {
        const auto at = input.take<std::uint32_t>();
        process.write(at, input.take(input.take<std::uint8_t>()));
        break;
      }
      case Step::look:
        if (!collector) collector.emplace(process.descriptor(), session, CollectorOptions{});
        collector->drain();
        break;
    }
  }
}

}  // namespace

OPTRACE_READER(region) {
  static const PrivateFolder scratch;
  Process process;
  ProbeSession session(scratch.path());
  std::optional<Collector> collector;
  fuzz::Input input(data, size);
  fuzz::refuses_or_reads([&] {
    follow(input, process, collector, session);
    if (!collector) collector.emplace(process.descriptor(), session, CollectorOptions{});
    collector->finish();
    fuzz::use(collector->progress());
    fuzz::use(collector->op_counts());
    fuzz::use(collector->take({}));
  });
  return 0;
}
