#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/completion/completion.h"
#include "src/inputs/selected_index.h"

namespace optrace {

/// Names from the index of the torch in use; none without an index. Python is not started.
class IndexNames : public CompletionNames {
 public:
  std::vector<std::string> ops(std::string_view start) const override;
  std::vector<std::string> names(std::string_view start) const override;
  std::vector<Candidate> processes(std::string_view start) const override;
};

}  // namespace optrace
