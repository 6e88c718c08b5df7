#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace optrace {

/// Starts a process that makes an index from the wheel of `python`'s torch (`optrace source add
/// --wheel`) and outlives this one, with the lowest priority, unless one is running or has failed
/// within a day. Returns a sentence that says what is going on; empty if nothing was started: if
/// $OPTRACE_BACKGROUND is 0, under CI ($CI), or if the torch is not a wheel. To be called if no
/// index fits the torch.
std::string make_index_in_background(const std::filesystem::path& python,
                                     std::string_view torch_version);

}  // namespace optrace
