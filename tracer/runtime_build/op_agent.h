#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "platform/private_folder.h"

namespace optrace {

/// The library that records ops in a traced process (tracer/in_process/op_records/), built for one
/// torch.
struct OpAgent {
  std::filesystem::path library;  ///< Empty if there is none.
  /// If there is none: the reason and the remedy, in sentences for a trace's warnings.
  std::string missing;
  std::shared_ptr<const PrivateFolder> folder;  ///< Contains a library that can't be cached.
  std::string not_kept;                         ///< As in BuiltLibrary.
};

/// Returns the op-record agent for the torch in `torch_folder` (site-packages/torch), from the
/// user's cache. The first time, it is built with the user's C++ compiler ($CXX, else g++, c++ or
/// clang++), which takes about ten seconds and is reported to `progress`. A cached agent is used
/// only if all that it depends on is unchanged: torch's version and build, the C++ library's ABI
/// that it uses, the compiler, the agent's own source, and the contents of all headers that were
/// read. If it can't be built, `missing` has the reason. Throws Error(interrupted) after a signal,
/// if an InterruptGuard lives.
OpAgent find_or_build_op_agent(const std::filesystem::path& torch_folder,
                               const std::function<void(std::string_view)>& progress);

/// Returns the ops (`aten::add.Tensor`) whose calls occur in these op records, sorted and unique.
/// Strings that are not records are ignored.
std::vector<std::string> recorded_ops(const std::vector<std::string>& op_records);

}  // namespace optrace
