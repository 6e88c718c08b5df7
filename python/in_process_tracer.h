#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tracer/calltree/collector.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The torch of this process.
struct TorchAtHand {
  std::filesystem::path folder;       ///< site-packages/torch
  std::filesystem::path interpreter;  ///< The ELF file that holds Python itself.
  bool cuda = false;                  ///< Whether there is a GPU that it might use.
};

struct InProcessOptions {
  CollectorOptions collector;
  bool op_records = true;
  bool python_frames = true;
  std::uint64_t buffer_bytes = std::uint64_t{32} << 20;
};

/// Traces the process that it is in: the agent records, a thread of ours counts. That thread never
/// runs Python, never enters a function that has a probe, and takes no signal. One object for the
/// process, never destroyed, since threads may be in probes until the process is gone.
class InProcessTracer {
 public:
  static InProcessTracer& instance();

  /// Whether this process records.
  bool active() const;

  /// Makes what the first recording takes: plans for this torch's libraries, and the op-record
  /// agent (ten seconds with a compiler, once for a torch and user). Later calls do nothing. For
  /// any thread, without the GIL. Throws Error.
  void prepare(const TorchAtHand& torch, const InProcessOptions& options);

  /// Places the probes and begins to record. The caller holds the GIL and has prepared. Throws
  /// Error(usage) when it records already.
  void start(const InProcessOptions& options);

  /// Ends recording, on the thread that started it and with the GIL; does not wait for anything.
  void stop();

  /// Reads what is left. After stop(), best without the GIL. Throws Error(failed) when what was
  /// recorded can't be read.
  void finish();

  /// The ops that occurred. After finish(), before take().
  std::vector<std::string> ops() const;

  /// The trace; and takes the probes out. `meta` as in Trace.
  Trace take(nlohmann::json meta);

  /// Drops the recording and takes the probes out. Throws nothing; does nothing when there is none.
  void abandon() noexcept;

  /// At the process's end: the same, and nothing of ours stays on the disk.
  void close() noexcept;

  /// Around a fork: the child inherits no thread of ours, so there is none at that moment. The
  /// child forgets the recording, which is the parent's, and takes the probes out.
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;

 private:
  InProcessTracer();
  struct State;
  struct Round;
  State* state_;
};

}  // namespace optrace
