#include "target/op_recorder/libraries/onednn_calls.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "target/op_recorder/libraries/library_calls.h"
#include "target/recorder/agent_functions.h"

// oneDNN's C API can't be redirected, because libtorch_cpu does not import it. Instead, the print
// functions that its verbose mode calls and PyTorch's function that sets this mode are redirected.
// oneDNN documents the format of the lines (Verbose mode, `ONEDNN_VERBOSE=1`). A line is printed
// right after a primitive was executed, on the thread that executed it:
//
//   onednn_verbose[,v1][,timestamp],primitive,exec,cpu,convolution,jit:avx512_core,
//     forward_training,src:f32::blocked:abcd::f0 ...,attributes,alg:...,mb2_ic3oc8_...,milliseconds
//
// oneDNN before 3.4 omits `primitive`; before 3.5 it writes src_f32 instead of src:f32.

namespace optrace_ops {
namespace {

constexpr char kPrefix[] = "onednn_verbose";
constexpr std::size_t kPrefixSize = sizeof kPrefix - 1;

// Verbose levels of dnnl_set_verbose: nothing, execution, execution and creation.
constexpr int kOff = 0;
constexpr int kExecution = 1;
constexpr int kCreation = 2;

int (*original_set_verbose)(int) = nullptr;
int (*original_printf)(const char*, ...) = nullptr;
int (*original_checked_printf)(int, const char*, ...) = nullptr;
int (*original_fflush)(FILE*) = nullptr;

// Verbose level requested by the user. If it was set by an environment variable, it is not changed.
std::atomic<int> user_level{kOff};
std::atomic<bool> user_variable{false};
std::atomic<bool> watching{false};

// oneDNN prints a header once, before the first line. It is stored for a user who requests lines
// later.
constexpr std::size_t kHeaderSize = 8192;
char header[kHeaderSize];
std::atomic<std::size_t> header_used{0};

// True if the last line printed by the calling thread was removed; the flush that follows is then
// skipped.
thread_local bool taken = false;
// True if that line was incomplete; the rest is then removed, too (the header is printed in
// pieces).
thread_local bool goes_on = false;

bool requested_by_variable() {
  for (const char* const name : {"ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0 &&
        std::strcmp(value, "none") != 0)
      return true;
  }
  return false;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

// Classification of a line by its first fields.
struct Line {
  explicit Line(const std::string& text) {
    std::size_t from = 0;
    for (std::size_t i = 0; i < kFirst; ++i) {
      const std::size_t to = text.find(',', from);
      const auto is = [&](const char* word) {
        return text.compare(from, std::strlen(word), word) == 0;
      };
      if (is("graph") || is("ukernel")) primitive = false;
      if (is("exec")) exec = i;
      if (is("create")) creates = true;
      if (is("info,")) header = true;
      if (is("error")) complains = true;
      if (exec != 0 || creates || header || complains || is("warn") || to == std::string::npos)
        return;
      from = to + 1;
    }
  }

  static constexpr std::size_t kFirst = 5;
  bool primitive = true;  // False for a graph partition or another kind of line.
  std::size_t exec = 0;   // Index of the field that begins with "exec"; 0: none.
  bool creates = false;
  bool header = false;
  bool complains = false;  // An error, which oneDNN prints without verbose mode, but no warning.
};

void put(JsonText& json, const char* key, const std::string& value) {
  if (value.empty() || value == "undef") return;
  json.key(key);
  json.string(value);
}

// Writes a tensor of the form `src:f32:p:blocked:abcd::f0`: name, type, properties, kind, format,
// strides, flags.
void write_tensor(JsonText& json, const std::string& text) {
  std::vector<std::string> parts = split(text, ':');
  const std::size_t underscore = parts[0].rfind('_');
  constexpr std::size_t kOlder = 6;
  if (parts.size() == kOlder && underscore != std::string::npos) {
    parts.insert(parts.begin() + 1, parts[0].substr(underscore + 1));
    parts[0].resize(underscore);
  }
  json.open('{');
  put(json, "name", parts[0]);
  if (parts.size() > kOlder) {
    put(json, "type", parts[1]);
    put(json, "format", parts[3] == "blocked" ? parts[4] : parts[3]);
    put(json, "strides", parts[5]);
  }
  json.close('}');
}

void write_primitive(JsonText& json, const std::string& text, std::size_t exec) {
  const std::vector<std::string> fields = split(text, ',');
  std::size_t at = exec + 2;  // The field after the engine.
  put(json, "call", fields[at++]);
  json.key("kind");
  json.string("library");
  json.key("library");
  json.string("oneDNN");
  put(json, "implementation", fields[at++]);
  put(json, "propagation", fields[at++]);
  json.key("tensors");
  json.open('[');
  for (const std::string& tensor : split(fields[at++], ' '))
    if (!tensor.empty()) write_tensor(json, tensor);
  json.close(']');
  // The problem is the last field but one; the fields before it may contain commas.
  const std::size_t problem = fields.size() - 2;
  put(json, "attributes", fields[at++]);
  std::string auxiliary;
  for (; at < problem; ++at) auxiliary += (auxiliary.empty() ? "" : ",") + fields[at];
  constexpr char kAlgorithm[] = "alg:";
  if (auxiliary.rfind(kAlgorithm, 0) == 0)
    put(json, "algorithm", auxiliary.substr(sizeof kAlgorithm - 1));
  else
    put(json, "auxiliary", auxiliary);
  put(json, "problem", fields[problem]);
}

void note(const Line& line, const std::string& text, std::uint64_t stack_pointer) {
  constexpr std::ptrdiff_t kFields = 8;  // Number of fields from the engine to the time.
  if (!line.primitive ||
      std::count(text.begin(), text.end(), ',') < static_cast<std::ptrdiff_t>(line.exec) + kFields)
    return;
  Fingerprint fingerprint;
  fingerprint.add('D');
  fingerprint.add(text.data(), text.rfind(','));  // Excludes the time.
  record_library_call(fingerprint, stack_pointer,
                      [&](JsonText& json) { write_primitive(json, text, line.exec); });
}

void keep_header(const std::string& text) {
  const std::size_t at = header_used.fetch_add(text.size());
  if (at + text.size() < kHeaderSize) text.copy(header + at, text.size());
}

std::string take_header() {
  const std::size_t used = header_used.exchange(0);
  return used == 0 || used >= kHeaderSize ? std::string() : std::string(header, used);
}

// Returns true if the line must not be printed.
bool is_taken(const Line& line, const std::string& text) {
  if (user_variable.load(std::memory_order_relaxed)) return false;
  const int level = user_level.load(std::memory_order_relaxed);
  if (line.exec != 0) return level < kExecution;
  if (line.creates) return level < kCreation;
  if (line.complains || level != kOff) return false;
  if (line.header) keep_header(text);
  return true;
}

// Formats the output and returns true if it may be a oneDNN line. oneDNN prints whole lines, with a
// format that begins with the prefix or is "%s".
bool formats_line(const char* format, va_list arguments, std::string& text) {
  const bool whole = goes_on || std::strcmp(format, "%s") == 0;
  if (!whole && std::strncmp(format, kPrefix, kPrefixSize) != 0) return false;
  va_list copy;
  va_copy(copy, arguments);
  const int size = std::vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  if (size < 0) return false;
  text.resize(static_cast<std::size_t>(size) + 1);
  va_copy(copy, arguments);
  std::vsnprintf(&text[0], text.size(), format, copy);
  va_end(copy);
  text.pop_back();
  return goes_on || text.compare(0, kPrefixSize, kPrefix) == 0;
}

// Does the same as printf, except for oneDNN's lines. `stack_pointer` is in the frame of printf's
// replacement.
int print(const char* format, va_list arguments, std::uint64_t stack_pointer) {
  const int error = errno;
  try {
    std::string text;
    taken = false;
    if (formats_line(format, arguments, text)) {
      const Line line(text);
      if (goes_on)
        keep_header(text);
      else if (line.exec != 0)
        note(line, text, stack_pointer);
      taken = goes_on || is_taken(line, text);
      goes_on = taken && (text.empty() || text.back() != '\n');
      if (taken) {
        errno = error;
        return static_cast<int>(text.size());
      }
      const std::string before = line.exec != 0 || line.creates ? take_header() : std::string();
      if (!before.empty()) std::fputs(before.c_str(), stdout);
    }
  } catch (...) {  // Out of memory: print the line without recording it.
    taken = goes_on = false;
  }
  errno = error;
  return std::vprintf(format, arguments);
}

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

int replaced_printf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = print(format, arguments, address_of(__builtin_frame_address(0)));
  va_end(arguments);
  return result;
}

int replaced_checked_printf(int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = print(format, arguments, address_of(__builtin_frame_address(0)));
  va_end(arguments);
  return result;
}

int replaced_fflush(FILE* stream) {
  const bool skipped = taken && stream == stdout;
  taken = false;
  return skipped ? 0 : original_fflush(stream);
}

// Replaces at::native::set_verbose, which torch.backends.mkldnn.verbose calls. Returns 0 for an
// invalid level.
int replaced_set_verbose(int level) {
  const int least = watching.load() ? kExecution : kOff;
  const int result = original_set_verbose(std::max(level, level < kOff ? level : least));
  if (result != 0) {
    user_level.store(level);
    user_variable.store(false);  // From now on, oneDNN ignores the variable.
  }
  return result;
}

template <typename Function>
optrace_agent_redirection redirection(const char* symbol, Function* replacement,
                                      Function** original) {
  return {symbol, reinterpret_cast<void*>(replacement), reinterpret_cast<void**>(original)};
}

}  // namespace

void watch_onednn_calls(const void* inside_torch) {
  static const optrace_agent_redirection all[] = {
      redirection("__printf_chk", replaced_checked_printf, &original_checked_printf),
      redirection("printf", replaced_printf, &original_printf),
      redirection("fflush", replaced_fflush, &original_fflush),
      redirection("_ZN2at6native11set_verboseEi", replaced_set_verbose, &original_set_verbose)};
  const bool first = original_set_verbose == nullptr;
  if (redirect(inside_torch, all, sizeof all / sizeof *all) < 0 ||
      original_set_verbose == nullptr || original_fflush == nullptr ||
      (original_checked_printf == nullptr && original_printf == nullptr))
    return;
  if (first) user_variable.store(requested_by_variable());
  watching.store(true);
  if (!user_variable.load()) original_set_verbose(std::max(user_level.load(), kExecution));
}

void leave_onednn_calls() {
  if (!watching.exchange(false) || user_variable.load()) return;
  original_set_verbose(user_level.load());
}

}  // namespace optrace_ops
