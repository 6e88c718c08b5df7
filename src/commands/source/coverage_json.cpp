#include "platform/text/json_writer.h"
#include "src/commands/source/coverage.h"

namespace optrace {
namespace {

nlohmann::json as_json(const Share& share) {
  return {{"known", share.known}, {"all", share.all}, {"percent", share.percent()}};
}

nlohmann::json as_json(const std::vector<KernelCoverage::Missing>& missing) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& of : missing)
    list.push_back({{"op", of.op}, {"key", of.key}, {"kernel", of.kernel}});
  return list;
}

nlohmann::json as_json(const LibraryCoverage::Class& of) {
  return {{"name", of.name},
          {"functions", as_json(of.functions)},
          {"implicit", of.implicit},
          {"missing", of.missing}};
}

}  // namespace

std::string coverage_json(const SelectedIndex& choice, const Coverage& coverage) {
  nlohmann::json libraries = nlohmann::json::array();
  for (const auto& library : coverage.libraries) {
    nlohmann::json classes = nlohmann::json::array();
    for (const auto& of : library.classes) classes.push_back(as_json(of));
    libraries.push_back({{"library", library.library},
                         {"functions", as_json(library.functions())},
                         {"classes", classes},
                         {"lambdas", as_json(library.lambdas)}});
  }
  const nlohmann::json report = {
      {"schema", "optrace.completeness/1"},
      {"torch", {{"version", choice.torch ? choice.torch->version : ""}}},
      {"source", {{"version", choice.index.torch_version()}, {"exact", choice.exact}}},
      {"kernels",
       {{"available", as_json(coverage.kernels.available())},
        {"by_registration", coverage.kernels.by_registration},
        {"not_built", as_json(coverage.kernels.not_built)},
        {"missing", as_json(coverage.kernels.missing)}}},
      {"libraries", libraries}};
  return write_json(report, 2) + "\n";
}

}  // namespace optrace
