#include "target/agent/recording/python_functions.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "target/agent/process/system_calls.h"
#include "target/agent/recording/event_buffer.h"

namespace optrace::agent {

constinit KnownFunctions known_functions;

namespace {

// A quarter of the arena is kept free for op records.
constexpr std::uint64_t kNotForNames = 4;
constexpr std::uint64_t kSmallFunction = 256;  // In bytes; few functions need less.
// The number of known addresses is limited to one for so many bytes of the arena.
constexpr std::uint64_t kBytesForAddress = 32;
constexpr std::uint64_t kFirstCounts = 4096;

// Number of functions in the region, which is the id of the next one.
std::uint32_t function_count = 0;
std::uint64_t described_bytes = 0;  // Number of bytes that they occupy there.
bool full = false;                  // True if there was no memory for a function.
// Ids by hash of the description; `check` contains more bits of the hash.
IdMap contents;
PageArray<CallCount> counts;  // By id; shorter if there was no memory.

bool has_room(std::uint64_t bytes) {
  const std::uint64_t arena = current_region()->arena_size;
  return described_bytes + bytes <= arena - arena / kNotForNames;
}

std::uint64_t text_size(const FunctionDescription& function) {
  return std::uint64_t{function.name_size} + function.file_size;
}

std::uint64_t section_size(const FunctionDescription& function) {
  return sizeof(recording::PythonFunction) + text_size(function) + function.positions_size;
}

void add_count(const CallCount& count) {
  if (function_count >= counts.count) {
    PageArray<CallCount> more;
    if (!more.allocate(counts.count == 0 ? kFirstCounts : counts.count * 2)) return;
    if (counts.count != 0) std::memcpy(more.data, counts.data, counts.count * sizeof(CallCount));
    counts.release();
    counts = more;
  }
  counts[function_count] = count;
}

// The n-th section of a region is that of the function with id n, counting from 0. Returns false if
// there is no room.
bool write_section(const FunctionDescription& function) {
  const recording::PythonFunction header{
      function.first_line,    function.name_size,
      function.file_size,     function.positions_size,
      function.minor_version, function.counted ? 0 : recording::kUncounted};
  const SignalsBlocked guard;
  void* const section = begin_section(*current_region(), section_size(function));
  if (section == nullptr) return false;
  std::memcpy(section, &header, sizeof(header));
  char* const text = static_cast<char*>(section) + sizeof(header);
  std::memcpy(text, function.text, text_size(function));
  if (function.positions_size != 0)
    std::memcpy(text + text_size(function), function.positions, function.positions_size);
  add_count({function.counted ? static_cast<recording::PythonFunction*>(section) : nullptr,
             INT32_MAX, function.resumes});
  complete_section(section, recording::SectionKind::python_function);
  described_bytes += sizeof(recording::SectionHeader) + section_size(function);
  return true;
}

IdEntry hash_of(const FunctionDescription& function) {
  const XXH128_hash_t parts[] = {
      XXH3_128bits(function.text, text_size(function)),
      XXH3_128bits(function.positions, function.positions_size),
      {std::uint64_t{function.name_size} << 32 | function.first_line, function.minor_version}};
  const XXH128_hash_t whole = XXH3_128bits(parts, sizeof(parts));
  const std::uint64_t key = whole.low64 == 0 ? 1 : whole.low64;
  return {key, kNoFunction, static_cast<std::uint32_t>(whole.high64)};
}

// Returns the id of the function with this description, adding it if there is none, or
// kMergedFunction if there is no room for it.
std::uint32_t id_of(const FunctionDescription& function) {
  IdEntry content = hash_of(function);
  const IdEntry* const same = contents.find(content.key);
  if (same != nullptr && same->check == content.check) return same->id;
  if (!has_room(sizeof(recording::SectionHeader) + section_size(function)) ||
      !write_section(function)) {
    return kMergedFunction;
  }
  content.id = function_count++;
  contents.set(content);
  return content.id;
}

// Adds kMergedFunction to a new region. Returns false if there is no room for it.
bool begin_region() {
  const std::uint32_t serial = current_region()->serial;
  if (known_functions.region != serial) {
    clear_functions();
    known_functions.region = serial;
  }
  constexpr FunctionDescription kMerged{.text = "...", .name_size = 3};
  if (function_count == 0) id_of(kMerged);
  return function_count != 0;
}

}  // namespace

bool functions_are_full() {
  return known_functions.region == current_region()->serial && function_count != 0 &&
         (full || !has_room(kSmallFunction) ||
          known_functions.ids.size() >= current_region()->arena_size / kBytesForAddress);
}

std::uint32_t describe_function(std::uint64_t address, std::uint32_t check,
                                const FunctionDescription& function) {
  if (!begin_region()) return kNoFunction;
  const std::uint32_t id = id_of(function);
  full = !known_functions.ids.set({address, id, check});
  return id;
}

CallCount* count_of_calls(std::uint32_t id) {
  return id < counts.count && counts[id].section != nullptr ? &counts[id] : nullptr;
}

void remove_function(std::uint64_t address) {
  if (known_functions.ids.find(address) != nullptr) {
    const Unrecorded guard;
    known_functions.ids.erase(address);
  }
}

void clear_functions() {
  const Unrecorded guard;
  known_functions.region = 0;
  known_functions.ids.release();
  contents.release();
  counts.release();
  function_count = 0;
  described_bytes = 0;
  full = false;
}

}  // namespace optrace::agent
