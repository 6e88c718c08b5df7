#include <array>
#include <charconv>
#include <iterator>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "indexer/frontend/worker_protocol.h"
#include "indexer/store/result_type.h"
#include "platform/error.h"
#include "platform/text/json_reader.h"

namespace optrace {
namespace {

using nlohmann::json;

[[noreturn]] void fail(std::string_view what, std::string_view text) {
  throw Error(ExitStatus::failed,
              fmt::format("the index worker and the command disagree about a message: {} in '{}'",
                          what, text.substr(0, 200)),
              "Rebuild or reinstall optrace: its command and worker must have the same version.");
}

template <typename Parse>
auto parse(std::string_view line, Parse&& from) {
  try {
    return from(read_json_or_throw(line));
  } catch (const json::exception& error) {
    fail(error.what(), line);
  }
}

constexpr std::array<std::string_view, 4> kOutcomes = {"done", "not parsed", "not saved",
                                                       "out of memory"};

std::uint32_t parse_number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) fail("no number", text);
  return number;
}

template <typename Kind>
Kind parse_kind(std::string_view text, Kind last) {
  const std::uint32_t number = parse_number(text);
  if (number > static_cast<std::uint32_t>(last)) fail("unknown kind", text);
  return static_cast<Kind>(number);
}

std::string_view next_field(std::string_view& rest, char separator) {
  const std::string_view field = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(rest.size(), field.size() + 1));
  return field;
}

}  // namespace

std::string describe(UnitOutcome outcome) {
  switch (outcome) {
    case UnitOutcome::done:
      return "done";
    case UnitOutcome::not_parsed:
      return "the compiler failed on it";
    case UnitOutcome::not_saved:
      return "its precompiled header could not be written";
    case UnitOutcome::out_of_memory:
      return "it needs more memory than a worker may use";
  }
  return "";
}

std::string to_line(const WorkerSetup& setup) {
  json folders = json::array();
  for (const auto& folder : setup.folders)
    folders.push_back({{"folder", folder.folder}, {"name", folder.name}});
  return json{{"folders", folders},
              {"left_out", setup.left_out},
              {"memory_limit", setup.memory_limit}}
             .dump() +
         '\n';
}

std::string to_line(const UnitTask& task) {
  return json{{"number", task.number},
              {"source", task.source},
              {"arguments", task.arguments},
              {"result", task.result},
              {"precompiled", task.precompiled}}
             .dump() +
         '\n';
}

std::string to_line(const UnitStatus& status) {
  return json{{"number", status.number},
              {"outcome", kOutcomes.at(static_cast<std::size_t>(status.outcome))},
              {"errors", status.errors},
              {"first_error", status.first_error}}
             .dump(-1, ' ', false, json::error_handler_t::replace) +
         '\n';
}

WorkerSetup parse_setup(std::string_view line) {
  return parse(line, [](const json& value) {
    WorkerSetup setup;
    for (const auto& folder : value.at("folders")) {
      setup.folders.push_back(
          {folder.at("folder").get<std::string>(), folder.at("name").get<std::string>()});
    }
    setup.left_out = value.at("left_out").get<std::vector<std::string>>();
    setup.memory_limit = value.at("memory_limit").get<std::uint64_t>();
    return setup;
  });
}

UnitTask parse_task(std::string_view line) {
  return parse(line, [](const json& value) {
    return UnitTask{value.at("number").get<std::uint32_t>(), value.at("source").get<std::string>(),
                    value.at("arguments").get<std::vector<std::string>>(),
                    value.at("result").get<std::string>(),
                    value.at("precompiled").get<std::string>()};
  });
}

UnitStatus parse_status(std::string_view line) {
  return parse(line, [&](const json& value) {
    UnitStatus status{value.at("number").get<std::uint32_t>(), UnitOutcome::not_parsed,
                      value.at("errors").get<std::uint32_t>(),
                      value.at("first_error").get<std::string>()};
    const auto outcome = value.at("outcome").get<std::string>();
    for (std::size_t known = 0; known < kOutcomes.size(); ++known) {
      if (kOutcomes[known] == outcome) {
        status.outcome = static_cast<UnitOutcome>(known);
        return status;
      }
    }
    fail("unknown outcome", line);
  });
}

void append_function(const IndexContents::Function& function, std::string& text) {
  const auto to = std::back_inserter(text);
  fmt::format_to(to, "F\t{}\t{}\t{}\t{}\t{}\n", function.symbol, function.file, function.line,
                 static_cast<int>(function.kind), function.result);
  for (const auto& call : function.calls)
    fmt::format_to(to, "C\t{}\t{}\t{}\n", call.callee, call.line, static_cast<int>(call.kind));
}

void append_registration(const IndexContents::Registration& registration, std::string& text) {
  fmt::format_to(std::back_inserter(text), "R\t{}\t{}\t{}\t{}\t{}\t{}\n",
                 static_cast<int>(registration.kind), registration.name, registration.key,
                 registration.function, registration.file, registration.line);
}

void append_inclusion(std::string_view path, std::string& text) {
  if (path.find('\n') == std::string_view::npos)
    fmt::format_to(std::back_inserter(text), "D\t{}\n", path);
}

UnitFindings parse_findings(std::string_view text) {
  UnitFindings findings;
  while (!text.empty()) {
    std::string_view line = next_field(text, '\n');
    const std::string_view whole = line;
    const auto word = [&] { return std::string(next_field(line, '\t')); };
    const std::string_view tag = next_field(line, '\t');
    if (tag == "F") {
      IndexContents::Function function;
      function.symbol = word();
      function.file = word();
      function.line = parse_number(next_field(line, '\t'));
      function.kind =
          parse_kind<DefinitionKind>(next_field(line, '\t'), DefinitionKind::enumeration);
      function.result = line;
      if (!function.result.empty() && !parse_result_type(function.result)) fail("no type", whole);
      findings.functions.push_back(std::move(function));
    } else if (tag == "C" && !findings.functions.empty()) {
      IndexContents::Call call;
      call.callee = word();
      call.line = parse_number(next_field(line, '\t'));
      call.kind = parse_kind<CallKind>(line, CallKind::reference);
      findings.functions.back().calls.push_back(std::move(call));
    } else if (tag == "R") {
      IndexContents::Registration registration;
      registration.kind =
          parse_kind<RegistrationKind>(next_field(line, '\t'), RegistrationKind::stub);
      registration.name = word();
      registration.key = word();
      registration.function = word();
      registration.file = word();
      registration.line = parse_number(line);
      if (registration.name.empty()) fail("no name", whole);
      findings.registrations.push_back(std::move(registration));
    } else if (tag == "D") {
      findings.inclusions.emplace_back(line);
    } else {
      fail("unknown line", whole);
    }
    if ((tag == "F" && findings.functions.back().symbol.empty()) ||
        (tag == "C" && findings.functions.back().calls.back().callee.empty())) {
      fail("no symbol", whole);
    }
  }
  return findings;
}

}  // namespace optrace
