#include "lookup/locate/source_indexes.h"

#include <utility>

namespace optrace {
namespace {

template <typename Value>
void append(std::vector<Value>& into, std::vector<Value> more) {
  if (into.empty())
    into = std::move(more);
  else
    into.insert(into.end(), more.begin(), more.end());
}

}  // namespace

SourceIndexes::SourceIndexes(const Index& torch, const std::vector<Index>& extensions)
    : all_{&torch} {
  for (const Index& one : extensions) all_.push_back(&one);
}

std::vector<OpEntry> SourceIndexes::ops() const {
  std::vector<OpEntry> ops;
  for (const Index* const index : all_) append(ops, index->ops());
  return ops;
}

std::vector<Registration> SourceIndexes::extension_registrations() const {
  std::vector<Registration> registrations;
  for (std::size_t i = 1; i < all_.size(); ++i) append(registrations, all_[i]->registrations());
  return registrations;
}

std::optional<OpEntry> SourceIndexes::find_op(std::string_view unambiguous_name) const {
  for (const Index* const index : all_)
    if (auto found = index->find_op(unambiguous_name)) return found;
  return std::nullopt;
}

OpFacts SourceIndexes::facts_of(const OpEntry& op) const {
  for (const Index* const index : all_)
    if (const auto found = index->find_op(op.unambiguous_name); found && found->name == op.name)
      return index->facts_of(*found);
  return {};
}

std::vector<Registration> SourceIndexes::registrations_of(std::string_view name) const {
  std::vector<Registration> registrations;
  for (const Index* const index : all_) append(registrations, index->registrations_of(name));
  return registrations;
}

std::optional<PythonName> SourceIndexes::find_python_name(std::string_view name) const {
  for (const Index* const index : all_)
    if (auto found = index->find_python_name(name)) return found;
  return std::nullopt;
}

std::optional<Definition> SourceIndexes::find_definition(std::string_view symbol,
                                                         std::string_view source_file) const {
  for (const Index* const index : all_)
    if (auto found = index->find_definition(symbol, source_file)) return found;
  return std::nullopt;
}

std::optional<ResultType> SourceIndexes::result_type_of(std::string_view symbol,
                                                        std::string_view source_file) const {
  for (const Index* const index : all_)
    if (auto found = index->result_type_of(symbol, source_file)) return found;
  return std::nullopt;
}

std::vector<CallSite> SourceIndexes::calls_of(std::string_view symbol,
                                              std::string_view source_file) const {
  for (const Index* const index : all_)
    if (auto calls = index->calls_of(symbol, source_file); !calls.empty()) return calls;
  return {};
}

}  // namespace optrace
