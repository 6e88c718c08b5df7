#include "indexer/store/index_store.h"

#include <utility>

#include <fmt/core.h>

#include "indexer/store/index_state.h"
#include "platform/error.h"
#include "pytorch/source/source_files.h"

namespace optrace {

using namespace index_format;

namespace {

// Calls `visit(key, value)` for each note, until `visit` returns false.
template <typename Visit>
void each_note(const IndexSections& sections, const Visit& visit) {
  for (std::uint64_t at = 0; at < sections.size(SectionKind::meta);) {
    const auto key = sections.terminated(SectionKind::meta, at);
    at += key.size() + 1;
    const auto value = sections.terminated(SectionKind::meta, at);
    at += value.size() + 1;
    if (!visit(key, value)) return;
  }
}

}  // namespace

Index::Index(std::unique_ptr<State> state) : state_(std::move(state)) {}
Index::~Index() = default;
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;

Index Index::open(const std::filesystem::path& path) {
  return Index(std::make_unique<State>(path));
}

std::string_view Index::note(std::string_view key) const {
  std::string_view found;
  each_note(state_->sections, [&](std::string_view name, std::string_view value) {
    if (name == key) found = value;
    return found.data() == nullptr;
  });
  return found;
}

std::map<std::string, std::string> Index::notes() const {
  std::map<std::string, std::string> all;
  each_note(state_->sections, [&](std::string_view name, std::string_view value) {
    all.emplace(name, value);
    return true;
  });
  return all;
}

std::string_view Index::torch_version() const {
  return note("torch_version");
}

std::string_view Index::git_version() const {
  return note("git_version");
}

const std::filesystem::path& Index::path() const {
  return state_->sections.path();
}

bool Index::has_approximate_lines() const {
  const IndexSections& sections = state_->sections;
  return sections.count<DefinitionBounds>() != 0 || sections.count<CallBounds>() != 0 ||
         sections.count<RegistrationBounds>() != 0;
}

OpEntry Index::State::op(std::uint64_t offset, std::uint32_t rank) const {
  const std::string_view unambiguous = sections.terminated(SectionKind::ops, offset);
  return {sections.terminated(SectionKind::ops, offset + unambiguous.size() + 1),
          unambiguous,
          {kOpsFile, sections.row<OpRow>(rank).line, {}}};
}

std::string_view Index::State::facts(std::uint32_t rank) const {
  return sections.terminated(SectionKind::op_facts, sections.row<OpFactsRow>(rank).start);
}

std::optional<OpEntry> Index::find_op(std::string_view unambiguous_name) const {
  const auto rank = state_->sections.rank_of(kOps, unambiguous_name);
  if (!rank) return std::nullopt;
  return state_->op(state_->sections.name_offset(kOps, *rank), *rank);
}

std::vector<OpEntry> Index::ops() const {
  std::vector<OpEntry> entries;
  std::uint64_t offset = 0;
  for (std::uint32_t rank = 0; offset < state_->sections.size(SectionKind::ops); ++rank) {
    entries.push_back(state_->op(offset, rank));
    offset += entries.back().unambiguous_name.size() + entries.back().name.size() + 2;
  }
  return entries;
}

OpFacts Index::facts_of(const OpEntry& op) const {
  const auto rank = state_->sections.rank_of(kOps, op.unambiguous_name);
  if (!rank) return {};
  const auto text = state_->facts(*rank);
  if (text.empty()) return {};
  try {
    return parse_op_facts(text);
  } catch (const Error& error) {
    state_->sections.fail(
        fmt::format("corrupt: the facts of {}: {}", op.unambiguous_name, error.what()));
  }
}

Registration Index::State::registration(std::uint32_t rank) const {
  const auto row = sections.row<RegistrationRow>(rank);
  return {checked(row.kind, RegistrationKind::stub), sections.name(kRegistrationTexts, row.name),
          sections.name(kRegistrationTexts, row.key),
          row.function == 0 ? std::string_view() : symbol(row.function - 1),
          location<RegistrationBounds>(file_name(row.file), row.line, rank)};
}

std::vector<Registration> Index::registrations_of(std::string_view name) const {
  std::vector<Registration> found;
  if (const auto rank = state_->sections.rank_of(kRegistrationTexts, name)) {
    auto [first, end] = state_->sections.equal_range(SectionKind::registration_names, *rank);
    for (; first < end; ++first) found.push_back(state_->registration(first));
  }
  return found;
}

std::vector<Registration> Index::registrations() const {
  std::vector<Registration> all;
  const auto count = state_->sections.count<RegistrationRow>();
  all.reserve(count);
  for (std::uint32_t rank = 0; rank < count; ++rank) all.push_back(state_->registration(rank));
  return all;
}

bool Index::has_anchors() const {
  return state_->sections.count<AnchorRow>() > 0;
}

std::vector<IndexedAnchor> Index::anchors() const {
  std::vector<IndexedAnchor> all;
  const auto count = state_->sections.count<AnchorRow>();
  all.reserve(count);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const auto row = state_->sections.row<AnchorRow>(rank);
    all.push_back({std::string(state_->file_name(row.file)), row.line, row.key});
  }
  return all;
}

PythonName Index::State::python_name(std::uint64_t offset, std::uint32_t rank) const {
  PythonName found;
  found.name = sections.terminated(SectionKind::python_names, offset);
  found.target = sections.terminated(SectionKind::python_names, offset + found.name.size() + 1);
  const auto row = sections.row<PythonNameRow>(rank);
  if (std::string_view("mcfba").find(row.kind) == std::string_view::npos)
    sections.fail("corrupt: an entry has an unknown kind");
  found.kind = static_cast<PythonKind>(row.kind);
  if (row.file != 0) found.location = {file_name(row.file - 1), row.line, {}};
  return found;
}

std::optional<PythonName> Index::find_python_name(std::string_view name) const {
  const auto rank = state_->sections.rank_of(kPythonNames, name);
  if (!rank) return std::nullopt;
  return state_->python_name(state_->sections.name_offset(kPythonNames, *rank), *rank);
}

std::vector<PythonName> Index::python_names() const {
  std::vector<PythonName> all;
  std::uint64_t offset = 0;
  for (std::uint32_t rank = 0; offset < state_->sections.size(SectionKind::python_names); ++rank) {
    all.push_back(state_->python_name(offset, rank));
    offset += all.back().name.size() + all.back().target.size() + 2;
  }
  return all;
}

IndexContents Index::contents() const {
  IndexContents all;
  all.meta = notes();
  state_->each_definition([&](std::uint32_t rank, const Definition& definition) {
    const std::vector<CallSite> calls = state_->calls(rank, definition);
    IndexContents::Function function{.symbol = std::string(definition.symbol),
                                     .file = std::string(definition.location.file),
                                     .line = definition.location.line,
                                     .calls = {},
                                     .kind = definition.kind,
                                     .approximate = definition.location.approximate,
                                     .result = std::string(state_->result(rank))};
    for (const CallSite& call : calls)
      function.calls.push_back({.callee = std::string(call.callee),
                                .line = call.location.line,
                                .kind = call.kind,
                                .approximate = call.location.approximate});
    all.functions.push_back(std::move(function));
  });
  for (const Registration& registration : registrations())
    all.registrations.push_back({.kind = registration.kind,
                                 .name = std::string(registration.name),
                                 .key = std::string(registration.key),
                                 .function = std::string(registration.function),
                                 .file = std::string(registration.location.file),
                                 .line = registration.location.line,
                                 .approximate = registration.location.approximate});
  const std::vector<OpEntry> entries = ops();
  for (std::uint32_t rank = 0; rank < entries.size(); ++rank)
    all.ops.push_back({.name = std::string(entries[rank].name),
                       .unambiguous_name = std::string(entries[rank].unambiguous_name),
                       .line = entries[rank].location.line,
                       .facts = std::string(state_->facts(rank))});
  for (const PythonName& name : python_names())
    all.python_names.push_back({.name = std::string(name.name),
                                .kind = static_cast<char>(name.kind),
                                .target = std::string(name.target),
                                .file = std::string(name.location.file),
                                .line = name.location.line});
  all.anchors = anchors();
  return all;
}

}  // namespace optrace
