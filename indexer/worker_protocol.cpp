#include "indexer/worker_protocol.h"

#include <array>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "platform/error.h"

namespace optrace {
namespace {

using nlohmann::json;

[[noreturn]] void fail(std::string_view what, std::string_view text) {
  throw Error(ExitStatus::failed,
              fmt::format("the index worker and the command misunderstand each other: {} in '{}'",
                          what, text.substr(0, 200)),
              "Build or install optrace again: its command and worker must be of one version.");
}

template <typename Parse>
auto parse(std::string_view line, Parse&& from) {
  try {
    return from(json::parse(line));
  } catch (const json::exception& error) {
    fail(error.what(), line);
  }
}

constexpr std::array<std::string_view, 3> kOutcomes = {"done", "not parsed", "not saved"};

std::uint32_t parse_number(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail("no number", text);
  }
  return number;
}

std::string_view next_field(std::string_view& rest, char separator) {
  const std::string_view field = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(rest.size(), field.size() + 1));
  return field;
}

}  // namespace

std::string to_line(const WorkerSetup& setup) {
  json folders = json::array();
  for (const auto& folder : setup.folders) {
    folders.push_back({{"folder", folder.folder}, {"name", folder.name}});
  }
  return json{{"folders", folders}, {"left_out", setup.left_out}}.dump() + '\n';
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
  text += fmt::format("F\t{}\t{}\t{}\n", function.symbol, function.file, function.line);
  for (const auto& call : function.calls) {
    text += fmt::format("C\t{}\t{}\n", call.callee, call.line);
  }
}

std::vector<IndexContents::Function> parse_functions(std::string_view text) {
  std::vector<IndexContents::Function> functions;
  while (!text.empty()) {
    std::string_view line = next_field(text, '\n');
    const std::string_view whole = line;
    const std::string_view kind = next_field(line, '\t');
    const std::string_view symbol = next_field(line, '\t');
    if (symbol.empty()) {
      fail("no symbol", whole);
    }
    if (kind == "F") {
      const std::string_view file = next_field(line, '\t');
      functions.push_back({std::string(symbol), std::string(file), parse_number(line), {}});
    } else if (kind == "C" && !functions.empty()) {
      functions.back().calls.push_back({std::string(symbol), parse_number(line)});
    } else {
      fail("unknown line", whole);
    }
  }
  return functions;
}

}  // namespace optrace
