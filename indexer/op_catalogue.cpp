#include "indexer/op_catalogue.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "platform/error.h"

namespace optrace {
namespace {

// `add.Tensor` of `add.Tensor(Tensor self, ...) -> Tensor`, or of one name in an autogen list.
IndexContents::Op op_of(std::string_view signature, int line) {
  const std::size_t start = std::min(signature.find_first_not_of(' '), signature.size());
  signature.remove_prefix(start);
  const std::string name(signature.substr(0, signature.find_first_of("( ")));
  // torchgen/model.py, OperatorName.unambiguous_name
  std::string unambiguous = name;
  std::replace(unambiguous.begin(), unambiguous.end(), '.', '_');
  return {"aten::" + name, unambiguous, static_cast<std::uint32_t>(line + 1)};
}

}  // namespace

std::vector<IndexContents::Op> read_ops(const std::filesystem::path& native_functions) {
  std::vector<IndexContents::Op> ops;
  try {
    for (const auto& entry : YAML::LoadFile(native_functions.string())) {
      const int line = entry.Mark().line;
      ops.push_back(op_of(entry["func"].as<std::string>(), line));
      if (entry["autogen"]) {
        const auto derived = entry["autogen"].as<std::string>();
        std::string_view rest = derived;
        while (!rest.empty()) {
          ops.push_back(op_of(rest.substr(0, rest.find(',')), line));
          rest.remove_prefix(std::min(rest.find(','), rest.size() - 1) + 1);
        }
      }
    }
  } catch (const YAML::Exception& error) {
    throw Error(ExitStatus::usage,
                fmt::format("{} can't be read: {}", native_functions.string(), error.what()),
                "Check that the source tree is complete and unchanged.");
  }
  return ops;
}

}  // namespace optrace
