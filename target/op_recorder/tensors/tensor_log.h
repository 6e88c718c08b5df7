#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <ATen/core/ivalue.h>
#include <c10/core/TensorImpl.h>

#include "target/op_recorder/tensors/python_variables.h"

namespace optrace_ops {

// The log of tensors: the calls of ops with the storages of their arguments and results, the
// beginning and the end of storages, and the program's variables that refer to tensors, in the
// order in which they are seen. It is kept only on request, because it grows with each call.
// docs/trace-format.md describes its entries.

/// What a thread is doing.
struct LoggedThread {
  std::uint32_t call = 0;    ///< Number of the innermost call; 0: none.
  std::uint32_t record = 0;  ///< The id of its op record.
  bool in_node = false;      ///< The innermost call is a node, or inside of one.
  std::uint32_t file = 0;    ///< Number of the file of the program's current line; 0: unknown.
  std::uint32_t line = 0;
  std::uint64_t look = 0;  ///< Number of the last look at its variables.
};

/// A call of an op or a node between its begin and its end.
struct LoggedCall {
  std::uint32_t number = 0;
  LoggedThread outer{};  ///< The thread's state before the call.
  std::uint32_t record = 0;
  std::int64_t sequence = -1;  ///< Autograd's sequence number, as in kOpBegin and kNodeBegin.
  std::uint64_t thread = 0;    ///< Likewise.
  std::string arguments{};     ///< JSON values.
  std::string results{};       ///< Likewise.
};

/// The functions can be called from any thread.
namespace tensor_log {

/// The recordings that start from now on have a log of at most `most` bytes. Call with the GIL
/// held.
void request(const PythonSettings& settings, std::uint64_t most);

/// Begins a log if one was requested.
void start();

/// Looks at the variables of the main module, and ends the log.
void stop();

/// Returns true while there is a log that has room.
bool is_on();

/// Begins a call. Outside of all other calls, also looks at the program's line and variables.
/// Returns null if there is no log.
std::unique_ptr<LoggedCall> begin(LoggedThread& thread, bool is_node);

/// Adds the tensors of an argument. `name` may be null; `written`: the op writes to them.
void add_argument(LoggedCall& call, const char* name, bool written, const c10::IValue& value);

/// Adds a result. `relation` is "fresh", "view" or "alias", or null if unknown; `of` is the name of
/// the argument that it is a view or an alias of, or null.
void add_result(LoggedCall& call, const c10::TensorImpl& tensor, const char* relation,
                const char* of);

/// Records that autograd saves a tensor in the innermost call of the thread.
void record_saved(const c10::TensorImpl& tensor);

/// Drops the weak references to tensors. The tensors are other ones from then on.
void drop_tensors();

/// Makes the call around this one the thread's innermost, also after the end of the log.
void leave(LoggedThread& thread, const LoggedCall& call);

/// Adds the call, of the op or node with this name, to the log.
void end(const LoggedThread& thread, const LoggedCall& call, const char* name, bool is_node);

/// For fork(): the log's lock. A child has no log until it starts one.
std::mutex& mutex();
void reset_in_child();

}  // namespace tensor_log
}  // namespace optrace_ops
