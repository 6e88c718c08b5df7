#include "src/command_line/option_row.h"

#include <algorithm>
#include <string_view>

namespace optrace {
namespace {

const ProgramWords* program_in(const OptionRow& row) {
  return std::get_if<ProgramWords>(&row.target);
}

}  // namespace

bool OptionRow::is_positional() const {
  return !names.starts_with('-');
}

bool OptionRow::takes_value() const {
  const bool is_flag = std::holds_alternative<bool*>(target) ||
                       std::holds_alternative<std::function<void()>>(target) ||
                       !extras.implied.empty();
  return !is_flag;
}

bool OptionRow::shows_several_values() const {
  return (std::holds_alternative<std::vector<std::string>*>(target) ||
          std::holds_alternative<std::set<std::string, std::less<>>*>(target)) &&
         extras.several != SeveralValues::each_time_unmarked;
}

std::vector<std::string> OptionRow::all_names() const {
  std::vector<std::string> all;
  std::string_view rest = names;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find(','));
    all.emplace_back(name);
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
  }
  return all;
}

OptionRow at_most_one_of(std::string title, OptionRows rows) {
  OptionRow row(std::move(rows));
  row.title = std::move(title);
  return row;
}

OptionRow program_row(std::vector<std::string>& words, std::string only_after) {
  return {"", "", "", ProgramWords{.words = &words, .only_after = std::move(only_after)}};
}

void visit_options(const OptionRows& rows, const std::function<void(const OptionRow&)>& visit) {
  for (const OptionRow& row : rows)
    if (row.title.empty() && !row.rows.empty())
      visit_options(row.rows, visit);
    else if (row.title.empty() && program_in(row) == nullptr)
      visit(row);
  for (const OptionRow& row : rows)
    if (!row.title.empty()) visit_options(row.rows, visit);
}

const ProgramWords* program_of(const OptionRows& rows) {
  for (const OptionRow& row : rows) {
    const ProgramWords* const program = row.rows.empty() ? program_in(row) : program_of(row.rows);
    if (program != nullptr) return program;
  }
  return nullptr;
}

}  // namespace optrace
