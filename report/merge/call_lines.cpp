#include "report/merge/call_lines.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <set>
#include <system_error>
#include <unordered_set>

#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/symbols/symbol_key.h"

namespace optrace {
namespace {

// Returns true for the calls by which at::_ops::X::call calls a kernel
// (aten/src/ATen/core/dispatch/Dispatcher.h).
bool is_handover(std::string_view symbol) {
  return symbol.find("OperatorHandle") != std::string_view::npos &&
         (symbol.find("4callE") != std::string_view::npos ||
          symbol.find("10redispatchE") != std::string_view::npos);
}

// DispatchStub::operator() (aten/src/ATen/native/DispatchStub.h).
bool is_stub(std::string_view symbol) {
  return symbol == "_ZN2at6native12DispatchStubclE";
}

// The parts of a key without parameters, such as `_ZN5ideep6tensor9to_publicE`.
struct NameParts {
  std::string_view scope;  // `_ZN5ideep6tensor`; empty if it has fewer than two components.
  std::string_view name;   // `9to_public`; empty for constructors, operators and the like.
};

NameParts parts_of(std::string_view key) {
  constexpr std::string_view kStart = "_ZN";
  if (!key.starts_with(kStart) || !key.ends_with('E')) return {};
  key.remove_suffix(1);
  std::size_t at = kStart.size();
  for (unsigned depth = 0;; ++depth) {
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(key.data() + at, key.data() + key.size(), size);
    const auto digits = static_cast<std::size_t>(end - key.data()) - at;
    if (error != std::errc() || size > key.size() - at - digits) return {};
    if (at + digits + size == key.size())
      return {depth > 1 ? key.substr(0, at) : std::string_view(), key.substr(at)};
    at += digits + size;
  }
}

void add_line(std::vector<SourceLocation>& lines, const SourceLocation& line) {
  const auto at = std::ranges::lower_bound(lines, line.line, {}, &SourceLocation::line);
  if (at == lines.end() || at->line != line.line) lines.insert(at, line);
}

}  // namespace

const std::vector<CallSite>& CallLines::calls_of(std::string_view symbol,
                                                 const IndexedFunction& beside) {
  const auto [at, added] =
      calls_.try_emplace({std::string(symbol), beside.source_file + '\n' + beside.library});
  if (added) at->second = index_.calls_of(symbol, beside.source_file, beside.library);
  return at->second;
}

std::vector<SourceLocation> CallLines::find(const IndexedFunction& caller,
                                            const IndexedFunction& callee) {
  if (caller.symbol.empty() || callee.symbol.empty()) return {};
  const auto [cached, added] = found_.try_emplace(
      {caller.symbol + '\n' + caller.source_file + '\n' + caller.library, callee.symbol});
  std::vector<SourceLocation>& lines = cached->second;
  if (!added) return lines;
  const std::string callee_key = function_key(callee.symbol);
  const auto is_callee = [&](const CallSite& site) {
    return site.callee == callee_key || site.callee == callee.symbol;
  };

  struct Reached {
    std::string_view symbol;
    SourceLocation first_line;
  };
  std::vector<Reached> level;
  std::unordered_set<std::string_view> visited{caller.symbol};
  for (const CallSite& site : calls_of(caller.symbol, caller)) {
    if (is_callee(site)) add_line(lines, site.location);
    level.push_back({site.callee, site.location});
  }
  for (unsigned depth = 1; depth < kMaxDepth && lines.empty(); ++depth) {
    std::vector<Reached> next;
    for (const Reached& reached : level) {
      // Dispatcher entries are never inlined into their callers.
      if (is_in_ops_namespace(reached.symbol) || !visited.insert(reached.symbol).second) continue;
      if (visited.size() > kMaxVisited) break;
      for (const CallSite& site : calls_of(reached.symbol, caller)) {
        if (is_callee(site)) add_line(lines, reached.first_line);
        next.push_back({site.callee, reached.first_line});
      }
    }
    level = std::move(next);
  }
  return lines;
}

template <typename IsCallee>
std::vector<SourceLocation> CallLines::lines_of_calls(const IndexedFunction& caller,
                                                      IsCallee is_callee) {
  std::vector<SourceLocation> lines;
  for (const CallSite& site : calls_of(caller.symbol, caller))
    if (is_callee(site.callee)) add_line(lines, site.location);
  return lines;
}

std::vector<SourceLocation> CallLines::find_dispatch(const IndexedFunction& step) {
  return lines_of_calls(step, is_handover);
}

std::vector<SourceLocation> CallLines::find_by_name(const IndexedFunction& caller,
                                                    const IndexedFunction& callee, bool foreign) {
  const std::string key = template_key(callee.symbol).value_or("");
  const NameParts sought = parts_of(key);
  std::vector<SourceLocation> named;
  std::vector<SourceLocation> of_class;
  std::set<std::string> members;
  for (const CallSite& site : calls_of(caller.symbol, caller)) {
    const std::string site_key = template_key(site.callee).value_or(std::string(site.callee));
    const NameParts site_parts = parts_of(site_key);
    if (!sought.name.empty() && site_parts.name == sought.name) add_line(named, site.location);
    if (!sought.scope.empty() && site_parts.scope == sought.scope) {
      add_line(of_class, site.location);
      members.insert(site_key);
    }
  }
  return named.empty() && foreign && members.size() == 1 ? of_class : named;
}

std::vector<SourceLocation> CallLines::find_stub(const IndexedFunction& caller) {
  std::vector<SourceLocation> lines = lines_of_calls(caller, is_stub);
  if (lines.size() > 1) lines.clear();
  return lines;
}

}  // namespace optrace
