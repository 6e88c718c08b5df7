#include "indexer/catalogue/catalogue_lines.h"

#include <algorithm>

#include <fmt/format.h>

#include "platform/error.h"
#include "platform/text/json_reader.h"

namespace optrace {
namespace {

constexpr const char* kCatalogueRemedy =
    "Check that the source tree is complete and unchanged, and that Python works.";

}  // namespace

void each_catalogue_line(std::string_view json_lines, std::string_view what,
                         const std::function<void(const nlohmann::json&)>& visit) {
  for (std::size_t number = 1; !json_lines.empty(); ++number) {
    const std::size_t end = std::min(json_lines.find('\n'), json_lines.size());
    const std::string_view text = json_lines.substr(0, end);
    const auto fail = [&](const char* why) {
      throw Error(ExitStatus::failed,
                  fmt::format("{} can't be read: line {}: {}", what, number, why),
                  kCatalogueRemedy);
    };
    try {
      const auto line = read_json_or_throw(text);
      if (!line.is_object()) {
        fail("it is not an object");
      }
      visit(line);
    } catch (const nlohmann::json::exception& error) {
      fail(error.what());
    } catch (const Error& error) {
      if (error.status() != ExitStatus::usage) {
        throw;
      }
      fail(error.what());
    }
    json_lines.remove_prefix(std::min(end + 1, json_lines.size()));
  }
}

std::string name_in(const nlohmann::json& line, const char* key) {
  auto name = line.at(key).get<std::string>();
  if (name.empty() || name.find('\0') != std::string::npos) {
    throw Error(ExitStatus::usage, fmt::format("{} is not a name", key), kCatalogueRemedy);
  }
  return name;
}

}  // namespace optrace
