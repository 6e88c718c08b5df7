#pragma once

#include <string>
#include <vector>

namespace optrace {

/// Runs `optrace __complete WORDS...`, which completion scripts call, and `optrace __describe`, of
/// which the man page is made. They are not for users. Returns false for other words.
bool run_hidden_command(const std::vector<std::string>& words);

}  // namespace optrace
