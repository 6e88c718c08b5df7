#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace optrace {

/// What a trace file holds. The in-process agent records addresses only; before the file is
/// written, the command adds what the modules on its own disk say about each address that occurs
/// (symbol, size, jumps), so that a trace can be read on a machine that has no PyTorch.

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// A loaded ELF file.
struct TraceModule {
  std::string path;      ///< As the traced process saw it.
  std::string build_id;  ///< Lower-case hex; empty if the file has none.
};

/// A native function that an event, a return address or the initial stack names.
struct TraceFunction {
  std::uint32_t module = kNone;  ///< Index into modules; kNone for code outside every file (JIT).
  std::uint64_t address = 0;  ///< Of its entry, as linked (st_value), or absolute outside modules.
  std::string symbol;         ///< Mangled, as in .symtab; empty when nothing names it.
  std::string source_file;    ///< The STT_FILE symbol above a local symbol; empty if unknown.
  bool probed = false;
  bool enters_itself = false;  ///< Its body branches to its own entry: an entry may be a loop turn.
  bool jumps_indirectly = false;  ///< Its body has a `jmp` through a register or memory.
  /// Functions that its body jumps to directly, or was seen to jump to through others unprobed.
  std::vector<std::uint32_t> tail_calls;
};

/// A Python function, or a builtin that Python called.
struct PythonFunction {
  std::string name;  ///< `torch.nn.modules.conv.Conv2d.forward`; builtins: `torch.conv2d`.
  std::string file;  ///< Absolute, as co_filename has it; empty for a builtin.
  std::uint32_t first_line = 0;
};

enum class EventKind : std::uint8_t {
  function_entry =
      0,  ///< A probe hit. `what` is a function, `caller` the one that holds the return address.
  python_call =
      1,  ///< A Python function starts. `what` is a Python function, `line` its caller's line.
  python_return = 2,  ///< It ends (return, yield or exception). `what` as above.
  builtin_call = 3,   ///< Python is about to call a builtin. `what` is it, `line` the calling line.
  builtin_return = 4,  ///< It ended (return or exception).
};

struct Event {
  EventKind kind = EventKind::function_entry;
  std::uint32_t what = kNone;
  std::uint32_t caller = kNone;  ///< function_entry only: index into functions, kNone if unknown.
  std::uint32_t line = 0;        ///< Python kinds only; 0 if unknown.
  std::uint64_t stack_pointer =
      0;  ///< At function_entry: rsp at the first instruction, so the address of the return slot.
  std::uint64_t return_address =
      0;                   ///< As linked in the caller's module, or absolute outside modules.
  std::uint64_t time = 0;  ///< Nanoseconds since recording started.
};

/// A frame that was live when recording started on a thread, outermost first.
struct InitialFrame {
  std::uint32_t function = kNone;
  std::uint64_t stack_pointer = 0;  ///< The address of its return slot (CFA - 8).
  std::uint64_t return_address = 0;
};

struct ThreadRecord {
  std::uint64_t id = 0;  ///< As gettid gives it.
  std::vector<InitialFrame> initial_stack;
  std::vector<Event> events;  ///< In the order in which they happened.
  std::uint64_t lost = 0;     ///< Events that found no room.
};

struct Trace {
  /// What was traced, for the report's header; keys in docs/trace-format.md:
  /// {"torch": {"version","git_version","cuda","debug"}, "device", "python", "op", "call",
  ///  "inputs": [{"name","shape","dtype","device"}], "backward", "probes":
  ///  {"mode","placed","failed"}, "op_names": {"add_Tensor": "aten::add.Tensor", ...},
  ///  "torch_folder", "warnings": [text, ...]}
  nlohmann::json meta;
  std::vector<TraceModule> modules;
  std::vector<TraceFunction> functions;
  std::vector<PythonFunction> python_functions;
  std::vector<ThreadRecord> threads;
};

/// Throws Error(usage) when `path` is no trace, truncated, corrupt, or of an unknown version.
Trace read_trace(const std::filesystem::path& path);

/// Writes whole or not at all (OutputFile). Compressed; the format is in docs/trace-format.md.
void write_trace(const Trace& trace, const std::filesystem::path& path);

}  // namespace optrace
