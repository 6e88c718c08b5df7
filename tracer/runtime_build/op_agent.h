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
  std::string missing;  ///< Then: why, and how to get one, in sentences for a trace's warnings.
  std::shared_ptr<const PrivateFolder> folder;  ///< Holds the library where no cache can.
  std::string not_kept;                         ///< As BuiltLibrary has it.
};

/// The op-record agent for the torch in `torch_folder` (site-packages/torch), from the user's cache
/// or, the first time, built with the user's C++ compiler ($CXX, else g++, c++ or clang++), which
/// takes about ten seconds; `progress` is told then. Cached by what it depends on: torch's version
/// and build, the C++ library's ABI that it uses, the compiler, the agent's own source, and the
/// contents of all headers that were read. What
/// can't be built is no error but says what is missing.
/// Throws Error(interrupted) after a signal, if an InterruptGuard lives.
OpAgent find_or_build_op_agent(const std::filesystem::path& torch_folder,
                               const std::function<void(std::string_view)>& progress);

/// The ops (`aten::add.Tensor`) whose calls are among these op records, each once, sorted. What is
/// no record is passed over.
std::vector<std::string> recorded_ops(const std::vector<std::string>& op_records);

}  // namespace optrace
