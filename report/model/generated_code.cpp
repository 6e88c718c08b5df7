#include "report/model/generated_code.h"

#include <iterator>
#include <limits>
#include <utility>

#include "report/model/json_fields.h"

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

Json described(const Origin& origin) {
  Json object = Json::object();
  if (!origin.op.empty()) object["op"] = origin.op;
  if (!origin.node.empty()) object["node"] = origin.node;
  if (!origin.file.empty()) {
    object["file"] = origin.file;
    object["line"] = origin.line;
  }
  if (!origin.module.empty()) object["module"] = origin.module;
  return object;
}

}  // namespace

Json to_json(const std::vector<Origin>& origins) {
  Json list = Json::array();
  for (const Origin& origin : origins) list.push_back(described(origin));
  return list;
}

GeneratedCode::GeneratedCode(const Json& meta) {
  for (const Json& generated : list_at(meta, "generated_code")) {
    File file;
    for (const Json& kernel : list_at(generated, "kernels")) {
      const std::string name = text_at(kernel, "name");
      if (name.empty()) continue;
      Kernel described{.name = name, .file = {}, .line = 0};
      read_place(object_at(kernel, "source"), described.file, described.line);
      file.definitions[name] = described;
      if (std::string library = text_at(kernel, "library"); !library.empty())
        kernels_.emplace(std::move(library), std::move(described));
      file.kernels[name] = origins_in(kernel);
    }
    for (const Json& call : list_at(generated, "calls")) {
      Origin origin = origin_in(object_at(call, "origin"));
      std::optional<Origin>& known = file.calls[count_at(call, "line")];
      known.reset();
      if (!origin.file.empty()) known = std::move(origin);
    }
    if (std::string path = text_at(generated, "file"); !path.empty())
      files_[std::move(path)] = std::move(file);
  }
}

const GeneratedCode::Kernel* GeneratedCode::kernel_of(const std::string& library) const {
  const auto found = kernels_.find(library);
  return found == kernels_.end() ? nullptr : &found->second;
}

const GeneratedCode::Kernel* GeneratedCode::kernel_in(const std::string& file,
                                                      const std::string& name) const {
  const auto generated = files_.find(file);
  if (generated == files_.end()) return nullptr;
  const auto& definitions = generated->second.definitions;
  const auto found = definitions.find(name);
  return found == definitions.end() || found->second.file.empty() ? nullptr : &found->second;
}

std::optional<Origin> GeneratedCode::origin_of(const std::string& file, std::uint32_t line) const {
  const auto generated = files_.find(file);
  if (generated == files_.end()) return std::nullopt;
  const auto& calls = generated->second.calls;
  const auto after = calls.upper_bound(line);
  return after == calls.begin() ? std::nullopt : std::prev(after)->second;
}

const GeneratedCode::Kernels& GeneratedCode::kernels_in(const std::string& file) const {
  static const Kernels kNone;
  const auto generated = files_.find(file);
  return generated == files_.end() ? kNone : generated->second.kernels;
}

}  // namespace optrace
