#include "tracer/agent/recording_writer.h"

#include <cerrno>
#include <climits>
#include <cstring>

#include <link.h>
#include <unistd.h>

#include "tracer/agent/event_buffer.h"
#include "tracer/agent/modules.h"
#include "tracer/agent/python_events.h"

namespace optrace::agent {

namespace {

using recording::SectionKind;

// Gathers small pieces, so that a module's section is not five system calls.
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

int put_module(dl_phdr_info* info, std::size_t, void* argument) {
  Output& output = *static_cast<Output*>(argument);
  const LoadedModule loaded = describe_module(*info);
  char path[PATH_MAX];
  recording::Module module{};
  module.bias = loaded.bias;
  module.first = loaded.first;
  module.last = loaded.last;
  if (loaded.build_id_size <= sizeof(module.build_id)) {
    module.build_id_size = loaded.build_id_size;
    std::memcpy(module.build_id, loaded.build_id, loaded.build_id_size);
  }
  module.path_size = static_cast<std::uint32_t>(module_path(loaded, path, sizeof(path)));
  output.begin_section(SectionKind::module, sizeof(module) + module.path_size);
  output.put_value(module);
  output.put(path, module.path_size);
  output.end_section();
  return 0;
}

void put_plan(Output& output, const PlacedPlan& plan) {
  const auto path_size = static_cast<std::uint32_t>(std::strlen(plan.path.data));
  const recording::ProbeRange range{plan.first_id, plan.view.header->probe_count, plan.placed_count,
                                    path_size};
  output.begin_section(SectionKind::probes, sizeof(range) + path_size);
  output.put_value(range);
  output.put(plan.path.data, path_size);
  output.end_section();
}

void put_python_functions(Output& output) {
  for (std::uint32_t i = 0; i < python_function_count(); ++i) {
    const PythonFunctionName& function = python_function(i);
    const recording::PythonFunction header{function.first_line, function.name_size,
                                           function.file_size, 0};
    output.begin_section(SectionKind::python_function,
                         sizeof(header) + function.name_size + function.file_size);
    output.put_value(header);
    output.put(function.text, std::uint64_t{function.name_size} + function.file_size);
    output.end_section();
  }
}

void put_thread(Output& output, const recording::Thread& thread,
                const recording::InitialFrame* frames, std::uint32_t first_chunk) {
  output.begin_section(SectionKind::thread,
                       sizeof(thread) + thread.initial_count * sizeof(recording::InitialFrame) +
                           thread.event_count * sizeof(recording::Event));
  output.put_value(thread);
  output.put(frames, thread.initial_count * sizeof(recording::InitialFrame));
  for (std::uint32_t i = first_chunk; i != kNoChunk; i = chunk(i)->next) {
    output.put(events_of(chunk(i)), chunk(i)->count * sizeof(recording::Event));
  }
  output.end_section();
}

void put_threads(Output& output, const RecordingParts& parts, std::uint32_t round) {
  bool initial_put = parts.initial_count == 0;
  for (std::uint32_t i = 0; i < chunk_count(); ++i) {
    const ChunkHeader* const head = chunk(i);
    if (head->round != round || head->head != i) {
      continue;
    }
    recording::Thread thread{head->thread, head->lost, 0, 0};
    for (std::uint32_t j = i; j != kNoChunk; j = chunk(j)->next) {
      thread.event_count += chunk(j)->count;
    }
    if (!initial_put && head->thread == parts.initial_thread) {
      thread.initial_count = parts.initial_count;
      initial_put = true;
    }
    put_thread(output, thread, parts.initial_frames, i);
  }
  if (!initial_put) {
    put_thread(output, {parts.initial_thread, 0, parts.initial_count, 0}, parts.initial_frames,
               kNoChunk);
  }
  if (lost_without_chunk() != 0) {
    put_thread(output, {0, lost_without_chunk(), 0, 0}, nullptr, kNoChunk);
  }
}

}  // namespace

int write_recording(int file, const RecordingParts& parts) {
  Output output(file);
  output.put_value(parts.header);
  dl_iterate_phdr(put_module, &output);
  for (std::uint32_t i = 0; i < parts.plan_count; ++i) {
    put_plan(output, parts.plans[i]);
  }
  put_python_functions(output);
  put_threads(output, parts, last_started_round());
  output.begin_section(SectionKind::end, 0);
  output.end_section();
  return output.finish();
}

}  // namespace optrace::agent
