#include "indexer/catalogue/op_catalogue.h"

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "indexer/catalogue/catalogue_lines.h"
#include "indexer/sources/python_installation.h"
#include "indexer/store/op_facts.h"
#include "platform/error.h"
#include "platform/files/installation.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"

namespace optrace {

std::vector<IndexContents::Op> parse_ops(std::string_view json_lines) {
  std::vector<IndexContents::Op> ops;
  each_catalogue_line(json_lines, "the catalogue of ops", [&](const nlohmann::json& line) {
    IndexContents::Op op;
    op.name = name_in(line, "name");
    op.unambiguous_name = name_in(line, "unambiguous_name");
    op.line = line.at("line").get<std::uint32_t>();
    // Parsed and written again, so that the file contains only fields that a reader uses.
    op.facts = to_json(parse_op_facts(line.at("facts").dump()));
    ops.push_back(std::move(op));
  });
  return ops;
}

void write_ops(const std::filesystem::path& folder, const std::filesystem::path& python,
               const std::filesystem::path& output) {
  run_python(python,
             {(data_folder() / "catalogue/ops.py").string(), folder.string(), output.string()},
             folder, "reading native_functions.yaml and derivatives.yaml");
}

std::vector<IndexContents::Op> read_ops(const std::filesystem::path& folder,
                                        const std::filesystem::path& python) {
  const PrivateFolder scratch;
  const auto output = scratch.path() / "ops";
  write_ops(folder, python, output);
  return parse_ops(read_file(output).value_or(""));
}

}  // namespace optrace
