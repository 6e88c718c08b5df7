#include "report/compiled/generated_code.h"

#include <filesystem>
#include <iterator>
#include <limits>
#include <utility>

#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kOnlyKernel = "kernel";

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

std::string stem_of(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

}  // namespace

GeneratedCode::GeneratedCode(const TraceMeta& meta) {
  for (const Json& generated : read_json_list(meta.generated_code)) {
    File file;
    for (const Json& kernel : list_at(generated, "kernels")) {
      const std::string name = text_at(kernel, "name");
      if (name.empty()) continue;
      Kernel described{.name = name, .file = {}, .line = 0, .origins = origins_in(kernel)};
      read_place(object_at(kernel, "source"), described.file, described.line);
      std::string library = text_at(kernel, "library");
      if (library.empty()) library = stem_of(text_at(generated, "file"));
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

const GeneratedCode::Kernel* GeneratedCode::kernel_of(const std::string& library,
                                                      const std::string& function) const {
  for (const std::string& key : {library, stem_of(library)}) {
    const auto found = libraries_.find(key);
    if (found == libraries_.end()) continue;
    for (const Kernel& kernel : found->second)
      if (function == kOnlyKernel || function == kernel.name) return &kernel;
  }
  return nullptr;
}

const GeneratedCode::File* GeneratedCode::find(const std::string& file) const {
  const auto found = files_.find(file);
  return found == files_.end() ? nullptr : &found->second;
}

std::optional<Origin> GeneratedCode::origin_of(const std::string& file, std::uint32_t line) const {
  const File* const generated = find(file);
  if (generated == nullptr) return std::nullopt;
  const auto after = generated->calls.upper_bound(line);
  return after == generated->calls.begin() ? std::nullopt : std::prev(after)->second;
}

const GeneratedCode::Kernels& GeneratedCode::kernels_in(const std::string& file) const {
  static const Kernels kNoKernels;
  const File* const generated = find(file);
  return generated == nullptr ? kNoKernels : generated->kernels;
}

const std::vector<NotFused>& GeneratedCode::not_fused_in(const std::string& file) const {
  static const std::vector<NotFused> kNothing;
  const File* const generated = find(file);
  return generated == nullptr ? kNothing : generated->not_fused;
}

}  // namespace optrace
