#include "target/agent/recording/recording_writer.h"

#include <cerrno>
#include <climits>
#include <cstring>

#include <link.h>
#include <unistd.h>

#include "target/agent/process/modules.h"
#include "target/agent/process/pages.h"
#include "target/agent/process/system_calls.h"
#include "target/agent/recording/event_buffer.h"
#include "target/agent/recording/op_record_store.h"
#include "target/interface/generated_library.h"

namespace optrace::agent {

namespace {

using recording::SectionKind;

// Collects small pieces, so that a module's section does not need five system calls.
class Output {
 public:
  explicit Output(int file) : file_(file) {}

  void put(const void* bytes, std::uint64_t size) {
    if (size == 0) {
      return;
    }
    if (size > sizeof(buffer_) - filled_) {
      flush();
    }
    if (size >= sizeof(buffer_)) {
      write_all(static_cast<const char*>(bytes), size);
      return;
    }
    std::memcpy(buffer_ + filled_, bytes, size);
    filled_ += size;
  }

  template <typename T>
  void put_value(const T& value) {
    put(&value, sizeof(value));
  }

  void begin_section(SectionKind kind, std::uint64_t size) {
    const recording::SectionHeader header{kind, 0, size};
    put_value(header);
    section_size_ = size;
  }

  void end_section() {
    static constexpr char kPadding[8] = {};
    put(kPadding, (8 - section_size_ % 8) % 8);
  }

  int finish() {
    flush();
    return error_;
  }

 private:
  void flush() {
    write_all(buffer_, filled_);
    filled_ = 0;
  }

  void write_all(const char* bytes, std::uint64_t size) {
    while (size > 0 && error_ == 0) {
      const ssize_t written = write(file_, bytes, size);
      if (written >= 0) {
        bytes += written;
        size -= static_cast<std::uint64_t>(written);
      } else if (errno != EINTR) {
        error_ = -errno;
      }
    }
  }

  int file_;
  int error_ = 0;
  std::uint64_t filled_ = 0;
  std::uint64_t section_size_ = 0;
  char buffer_[16384];
};

struct DescribedModule {
  recording::Module module{};
  char path[PATH_MAX];
};

void describe(const dl_phdr_info& info, DescribedModule& described) {
  const LoadedModule loaded = describe_module(info);
  recording::Module& module = described.module;
  module.bias = loaded.bias;
  module.first = loaded.first;
  module.last = loaded.last;
  if (loaded.build_id_size <= sizeof(module.build_id)) {
    module.build_id_size = loaded.build_id_size;
    std::memcpy(module.build_id, loaded.build_id, loaded.build_id_size);
  }
  module.path_size =
      static_cast<std::uint32_t>(module_path(loaded, described.path, sizeof(described.path)));
}

int write_module(dl_phdr_info* info, std::size_t, void* argument) {
  Output& output = *static_cast<Output*>(argument);
  DescribedModule described;
  describe(*info, described);
  const recording::Module& module = described.module;
  output.begin_section(SectionKind::module, sizeof(module) + module.path_size);
  output.put_value(module);
  output.put(described.path, module.path_size);
  output.end_section();
  return 0;
}

int put_module(dl_phdr_info* info, std::size_t, void* argument) {
  Region& region = *static_cast<Region*>(argument);
  DescribedModule described;
  describe(*info, described);
  const recording::Module& module = described.module;
  const SignalsBlocked guard;
  void* const section = begin_section(region, sizeof(module) + module.path_size);
  if (section != nullptr) {
    std::memcpy(section, &module, sizeof(module));
    std::memcpy(static_cast<char*>(section) + sizeof(module), described.path, module.path_size);
    complete_section(section, SectionKind::module);
  }
  return 0;
}

// The first `count` modules of the loader's list, which is in load order, have been written,
// provided that none was unloaded since.
struct ModulesPut {
  std::uint64_t count = 0;
  std::uint64_t unloaded = 0;
};
ModulesPut modules_put;

struct NewModules {
  Region* region;
  std::uint64_t count = 0;
  std::uint64_t unloaded = 0;
  bool any_of_torch = false;
};

// Returns true if a DT_NEEDED entry names one of PyTorch's libraries. The loader has converted the
// offsets of the dynamic section to addresses.
bool needs_torch(const dl_phdr_info& info) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    }
  }
  const char* names = nullptr;
  for (const ElfW(Dyn)* at = dynamic; at != nullptr && at->d_tag != DT_NULL; ++at) {
    if (at->d_tag == DT_STRTAB && at->d_un.d_ptr > info.dlpi_addr) {
      names = reinterpret_cast<const char*>(at->d_un.d_ptr);  // NOLINT(performance-no-int-to-ptr)
    }
  }
  for (const ElfW(Dyn)* at = dynamic; names != nullptr && at->d_tag != DT_NULL; ++at) {
    if (at->d_tag == DT_NEEDED && (std::strncmp(names + at->d_un.d_val, "libtorch", 8) == 0 ||
                                   std::strncmp(names + at->d_un.d_val, "libc10", 6) == 0)) {
      return true;
    }
  }
  return false;
}

int put_if_new(dl_phdr_info* info, std::size_t size, void* argument) {
  NewModules& search = *static_cast<NewModules*>(argument);
  search.unloaded = info->dlpi_subs;
  const bool is_new = search.count >= modules_put.count || search.unloaded != modules_put.unloaded;
  ++search.count;
  if (is_new) {
    put_module(info, size, search.region);
    search.any_of_torch = search.any_of_torch || needs_torch(*info) ||
                          (info->dlpi_name != nullptr && is_generated_library(info->dlpi_name));
  }
  return 0;
}

// The initial stack of the thread that started the recording; points into the arena.
struct InitialStack {
  const recording::Thread* thread = nullptr;
  const recording::InitialFrame* frames = nullptr;
};

// Writes the content of the arena, except the initial stack, which it returns.
InitialStack write_arena(Output& output, const Region& region) {
  InitialStack initial;
  const std::uint64_t used = __atomic_load_n(&region.arena_used, __ATOMIC_ACQUIRE);
  for (std::uint64_t at = 0; at < used;) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    auto* const header = reinterpret_cast<recording::SectionHeader*>(region.arena + at);
    const auto kind = static_cast<SectionKind>(
        __atomic_load_n(reinterpret_cast<const std::uint32_t*>(&header->kind), __ATOMIC_ACQUIRE));
    if (static_cast<std::uint32_t>(kind) == 0) {
      break;  // A thread is still writing the section; nothing in the recording refers to it.
    }
    const std::uint64_t size = header->size;
    if (kind == SectionKind::initial_stack) {
      initial.thread = reinterpret_cast<const recording::Thread*>(header + 1);
      initial.frames = reinterpret_cast<const recording::InitialFrame*>(initial.thread + 1);
    } else {
      output.begin_section(kind, size);
      output.put(header + 1, size);
      output.end_section();
    }
    at += sizeof(*header) + (size + 7) / 8 * 8;
  }
  return initial;
}

// Summary of a chunk. `next` and `last` link the chunks of one thread by index.
struct CollectedChunk {
  std::uint64_t has_event[recording::kEventsPerChunk / 64 + 1];  // One bit for each slot.
  std::uint32_t events;                                          // Number of bits set.
  std::uint32_t next;                                            // kNoChunk: none.
  std::uint32_t last;                                            // Valid in a thread's first chunk.
};

class Chunks {
 public:
  Chunks(const Region& region, const recording::Header& header)
      : region_(region), header_(header), count_(region.chunks_taken()) {}
  ~Chunks() { collected_.release(); }
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;

  // Returns false if memory can't be allocated.
  bool collect() {
    if (!collected_.allocate(count_)) {
      return false;
    }
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (!is_of_recording(i)) {
        continue;
      }
      collected_[i] = {{}, 0, kNoChunk, i};
      find_events(i);
      const std::uint32_t first = region_.chunk(i)->first;
      if (first != i) {
        collected_[collected_[first].last].next = i;
        collected_[first].last = i;
      }
    }
    return true;
  }

  bool begins_thread(std::uint32_t index) const {
    return is_of_recording(index) && region_.chunk(index)->first == index;
  }
  // Writes the events found by collect(). A thread that was in a probe when the recording stopped
  // may have completed its event since then; that event is not written.
  void put_events(std::uint32_t index, Output& output) const {
    for (std::uint32_t i = 0; i < recording::kEventsPerChunk; ++i) {
      recording::Event event;
      if ((collected_[index].has_event[i / 64] >> i % 64 & 1) != 0 && read(index, i, event)) {
        output.put_value(event);
      }
    }
  }
  std::uint32_t count() const { return count_; }
  recording::ChunkHeader* header(std::uint32_t index) const { return region_.chunk(index); }
  const CollectedChunk& operator[](std::uint32_t index) const { return collected_[index]; }

 private:
  // False for a chunk that a thread has taken but not used.
  bool is_of_recording(std::uint32_t index) const {
    return __atomic_load_n(&region_.chunk(index)->round, __ATOMIC_ACQUIRE) == last_started_round();
  }

  bool read(std::uint32_t index, std::uint32_t slot, recording::Event& event) const {
    return read_slot(events_of(region_.chunk(index))[slot], header_.start_ticks, header_.stop_ticks,
                     event);
  }
  void find_events(std::uint32_t index) {
    for (std::uint32_t i = 0; i < recording::kEventsPerChunk; ++i) {
      recording::Event event;
      if (read(index, i, event)) {
        collected_[index].has_event[i / 64] |= std::uint64_t{1} << i % 64;
        ++collected_[index].events;
      }
    }
  }

  const Region& region_;
  const recording::Header& header_;
  std::uint32_t count_;
  PageArray<CollectedChunk> collected_;
};

void put_thread(Output& output, const recording::Thread& thread,
                const recording::InitialFrame* frames, const Chunks& chunks, std::uint32_t first) {
  output.begin_section(SectionKind::thread,
                       sizeof(thread) + thread.initial_count * sizeof(recording::InitialFrame) +
                           thread.event_count * sizeof(recording::Event));
  output.put_value(thread);
  output.put(frames, thread.initial_count * sizeof(recording::InitialFrame));
  for (std::uint32_t i = first; i != kNoChunk; i = chunks[i].next) {
    chunks.put_events(i, output);
  }
  output.end_section();
}

void put_threads(Output& output, const Chunks& chunks, InitialStack initial,
                 std::uint64_t lost_without_chunk) {
  for (std::uint32_t i = 0; i < chunks.count(); ++i) {
    if (!chunks.begins_thread(i)) {
      continue;
    }
    recording::Thread thread{chunks.header(i)->thread, 0, 0, 0};
    for (std::uint32_t j = i; j != kNoChunk; j = chunks[j].next) {
      thread.event_count += chunks[j].events;
      thread.lost += chunks.header(j)->lost;
    }
    const recording::InitialFrame* frames = nullptr;
    if (initial.thread != nullptr && initial.thread->id == thread.id) {
      thread.initial_count = initial.thread->initial_count;
      frames = initial.frames;
      initial = {};
    }
    put_thread(output, thread, frames, chunks, i);
  }
  if (initial.thread != nullptr) {
    put_thread(output, *initial.thread, initial.frames, chunks, kNoChunk);
  }
  if (lost_without_chunk != 0) {
    put_thread(output, {0, lost_without_chunk, 0, 0}, nullptr, chunks, kNoChunk);
  }
}

}  // namespace

int write_recording(int file, const recording::Header& header, Region& region) {
  Chunks chunks(region, header);
  if (!chunks.collect()) {
    return -ENOMEM;
  }
  Output output(file);
  output.put_value(header);
  dl_iterate_phdr(write_module, &output);
  const InitialStack initial = write_arena(output, region);
  for_each_op_record(
      [](const recording::OpRecord& record, const char* text, std::uint64_t size, void* argument) {
        Output& records = *static_cast<Output*>(argument);
        records.begin_section(SectionKind::op_record, sizeof(record) + size);
        records.put_value(record);
        records.put(text, size);
        records.end_section();
      },
      &output);
  put_threads(output, chunks, initial, __atomic_load_n(&region.header->lost, __ATOMIC_RELAXED));
  output.begin_section(SectionKind::end, 0);
  output.end_section();
  return output.finish();
}

void put_modules(Region& region) {
  modules_put = {};
  put_new_modules(region);
}

bool has_generated_library() {
  return dl_iterate_phdr(
             [](dl_phdr_info* info, std::size_t, void*) {
               return info->dlpi_name != nullptr && is_generated_library(info->dlpi_name) ? 1 : 0;
             },
             nullptr) != 0;
}

bool put_new_modules(Region& region) {
  const std::uint32_t met = __atomic_load_n(&region.header->modules_met, __ATOMIC_ACQUIRE);
  NewModules search{&region};
  dl_iterate_phdr(put_if_new, &search);
  __atomic_store_n(&region.header->modules_put, met, __ATOMIC_RELEASE);
  modules_put = {search.count, search.unloaded};
  return search.any_of_torch;
}

}  // namespace optrace::agent
