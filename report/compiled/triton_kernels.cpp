#include "report/compiled/triton_kernels.h"

#include <algorithm>

namespace optrace {

bool TritonKernel::is_tuned() const {
  return std::ranges::any_of(configurations,
                             [](const TritonConfiguration& one) { return one.chosen.has_value(); });
}

const TritonKernel* TritonKernels::find(const std::string& generated_file,
                                        const std::string& name) const {
  // Generated code may also call an op that launches a kernel of the program.
  for (const std::string& file : {generated_file, std::string()})
    if (const auto found = kernels_.find({file, name}); found != kernels_.end())
      return &found->second;
  const auto only = by_name_.find(name);
  return only == by_name_.end() ? nullptr : only->second;
}

}  // namespace optrace
