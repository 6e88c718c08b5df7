#include "report/compiled/triton_kernels.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "indexer/store/source_link.h"
#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"
#include "report/json/read_detail_json.h"

namespace optrace {

using Json = nlohmann::json;

bool TritonKernel::is_tuned() const {
  return std::ranges::any_of(configurations,
                             [](const TritonConfiguration& one) { return one.chosen.has_value(); });
}

TritonKernels::TritonKernels(const TraceMeta& meta) {
  for (const Json& object : read_json_list(meta.triton_kernels)) {
    const std::string name = text_at(object, "name");
    if (name.empty()) continue;
    const auto [place, added] = kernels_.try_emplace({text_at(object, "generated_file"), name});
    TritonKernel& kernel = place->second;
    std::string file = relative_to_torch(text_at(object, "file"), meta.torch_folder);
    const std::uint64_t line = count_at(object, "line");
    if (added && line != 0 && line <= std::numeric_limits<std::uint32_t>::max()) {
      kernel.file = std::move(file);
      kernel.line = static_cast<std::uint32_t>(line);
    } else if (file != kernel.file || line != kernel.line) {
      kernel.file.clear();
    }
    for (const Json& one : list_at(object, "configurations"))
      if (one.is_object()) kernel.configurations.push_back(configuration_of(one));
    const auto [known, first] = by_name_.try_emplace(name, &kernel);
    if (!first && known->second != &kernel) known->second = nullptr;
  }
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
