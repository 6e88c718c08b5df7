#pragma once

#include <array>
#include <string_view>

namespace optrace {

/// A shell with the script that completes optrace's command line in it. The scripts ask `optrace
/// __complete WORDS...` and print nothing of their own, so they suit every version of optrace.
struct CompletionScript {
  std::string_view shell;
  std::string_view file;  ///< The name under which the shell looks for the script.
  std::string_view text;
};

std::array<CompletionScript, 3> completion_scripts();

}  // namespace optrace
