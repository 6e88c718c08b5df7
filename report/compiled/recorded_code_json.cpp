// What a trace's metadata tells of torch.compile (docs/trace-format.md).
#include <filesystem>
#include <limits>
#include <utility>

#include "indexer/store/source_link.h"
#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"
#include "report/compiled/compilations.h"
#include "report/compiled/generated_code.h"
#include "report/compiled/triton_kernels.h"
#include "report/json/read_compilation_json.h"
#include "report/json/read_detail_json.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

// Reads a place; without a file or a line, neither is known.
void read_place(const Json& object, std::string& file, std::uint32_t& line) {
  const std::uint64_t number = count_at(object, "line");
  std::string path = text_at(object, "file");
  if (path.empty() || number == 0 || number > std::numeric_limits<std::uint32_t>::max()) return;
  file = std::move(path);
  line = static_cast<std::uint32_t>(number);
}

Origin origin_in(const Json& object) {
  Origin origin;
  origin.op = text_at(object, "op");
  origin.node = text_at(object, "node");
  origin.module = text_at(object, "module");
  read_place(object, origin.file, origin.line);
  return origin;
}

std::vector<Origin> origins_in(const Json& kernel) {
  std::vector<Origin> origins;
  for (const Json& one : list_at(kernel, "origins"))
    if (Origin origin = origin_in(one); !origin.op.empty() || !origin.file.empty())
      origins.push_back(std::move(origin));
  return origins;
}

}  // namespace

std::vector<Compilation> recorded_compilations(const TraceMeta& meta) {
  std::vector<Compilation> compilations;
  for (const Json& recorded : read_json_list(meta.compilations))
    if (recorded.is_object()) compilations.push_back(compilation_of(recorded));
  return compilations;
}

GeneratedCode::GeneratedCode(const TraceMeta& meta) {
  for (const Json& generated : read_json_list(meta.generated_code)) {
    File file;
    for (const Json& kernel : list_at(generated, "kernels")) {
      const std::string name = text_at(kernel, "name");
      if (name.empty()) continue;
      Kernel described{.name = name, .file = {}, .line = 0, .origins = origins_in(kernel)};
      read_place(object_at(kernel, "source"), described.file, described.line);
      std::string library = text_at(kernel, "library");
      if (library.empty())
        library = std::filesystem::path(text_at(generated, "file")).stem().string();
      if (!library.empty()) libraries_[std::move(library)].push_back(described);
      file.kernels[name] = std::move(described);
    }
    for (const Json& call : list_at(generated, "calls")) {
      Origin origin = origin_in(object_at(call, "origin"));
      std::optional<Origin>& known = file.calls[count_at(call, "line")];
      known.reset();
      if (!origin.file.empty()) known = std::move(origin);
    }
    for (const Json& pair : list_at(generated, "not_fused")) {
      NotFused one{.producer = text_at(pair, "producer"),
                   .consumer = text_at(pair, "consumer"),
                   .is_extern = flag_at(pair, "extern"),
                   .reason = text_at(pair, "reason")};
      if (!one.producer.empty() && !one.consumer.empty()) file.not_fused.push_back(std::move(one));
    }
    if (std::string path = text_at(generated, "file"); !path.empty())
      files_[std::move(path)] = std::move(file);
  }
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

}  // namespace optrace
