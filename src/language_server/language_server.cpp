#include "src/language_server/language_server.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "lookup/source_text/python_source.h"
#include "platform/error.h"
#include "platform/text/json_reader.h"
#include "platform/text/json_writer.h"
#include "present/hyperlink_format.h"
#include "src/language_server/text_position.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

// Of JSON-RPC and the Language Server Protocol.
constexpr int kParseError = -32700;
constexpr int kInvalidRequest = -32600;
constexpr int kMethodNotFound = -32601;
constexpr int kInvalidParameters = -32602;
constexpr int kNotInitialized = -32002;
constexpr int kRequestFailed = -32803;
constexpr int kFullText = 1;  // TextDocumentSyncKind.Full

constexpr std::size_t kMaxOpenFiles = 1000;

/// An error response.
class RequestError : public std::runtime_error {
 public:
  RequestError(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

Json error_response(const Json& id, int code, const std::string& message) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}};
}

const Json& member(const Json& object, const char* key) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found == object.end() ? kNone : *found;
}

std::string text_in(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string())
    throw RequestError(kInvalidParameters, fmt::format("the text '{}' is missing", key));
  return value.get<std::string>();
}

std::size_t number_in(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_number_unsigned())
    throw RequestError(kInvalidParameters, fmt::format("the number '{}' is missing", key));
  return value.get<std::size_t>();
}

Json position(std::size_t line, std::size_t character) {
  return {{"line", line}, {"character", character}};
}

}  // namespace

/// What was opened, and whether the client has said goodbye.
class LanguageServer::Session {
 public:
  Session(NameAnswers& answers, std::string version)
      : answers_(answers), version_(std::move(version)) {}

  std::optional<Json> answer(const std::string& text);
  bool ended() const { return ended_; }
  bool shut_down() const { return shut_down_; }

 private:
  /// What a request about a position is about.
  struct Question {
    LocateResult found;
    Json range;  ///< Of the name in the file.
  };

  Json result_of(const std::string& method, const Json& parameters);
  void notice(const std::string& method, const Json& parameters);
  Json initialize(const Json& parameters);
  Json definition(const Json& parameters);
  Json hover(const Json& parameters);
  std::optional<Question> question(const Json& parameters);

  NameAnswers& answers_;
  std::string version_;
  std::map<std::string, PythonSource> files_;  ///< What is open, by URI.
  bool bytes_ = false;                         ///< Positions are bytes, not UTF-16 code units.
  bool initialized_ = false;
  bool shut_down_ = false;
  bool ended_ = false;
};

std::optional<Json> LanguageServer::Session::answer(const std::string& text) {
  const Json message = read_json(text);
  if (message.is_discarded()) return error_response(nullptr, kParseError, "not valid JSON");
  const Json& id = member(message, "id");
  const Json& method = member(message, "method");
  // A response to a request of the server, which makes none.
  if (message.is_object() && method.is_null() && !id.is_null()) return std::nullopt;
  if (!method.is_string()) return error_response(id, kInvalidRequest, "not a request");
  const Json& parameters = member(message, "params");
  try {
    if (id.is_null()) {
      notice(method.get<std::string>(), parameters);
      return std::nullopt;
    }
    return Json{{"jsonrpc", "2.0"},
                {"id", id},
                {"result", result_of(method.get<std::string>(), parameters)}};
  } catch (const RequestError& error) {
    if (id.is_null()) return std::nullopt;
    return error_response(id, error.code(), error.what());
  } catch (const Error& error) {
    if (error.status() == ExitStatus::interrupted) throw;
    if (id.is_null()) return std::nullopt;
    return error_response(id, kRequestFailed, fmt::format("{}. {}", error.what(), error.remedy()));
  }
}

Json LanguageServer::Session::result_of(const std::string& method, const Json& parameters) {
  if (method == "initialize") return initialize(parameters);
  if (!initialized_) throw RequestError(kNotInitialized, "initialize comes first");
  if (shut_down_) throw RequestError(kInvalidRequest, "the server was shut down");
  if (method == "textDocument/definition") return definition(parameters);
  if (method == "textDocument/hover") return hover(parameters);
  if (method == "shutdown") {
    shut_down_ = true;
    return nullptr;
  }
  throw RequestError(kMethodNotFound, fmt::format("optrace does not answer '{}'", method));
}

Json LanguageServer::Session::initialize(const Json& parameters) {
  initialized_ = true;
  const Json& encodings =
      member(member(member(parameters, "capabilities"), "general"), "positionEncodings");
  bytes_ = encodings.is_array() && std::ranges::find(encodings, Json("utf-8")) != encodings.end();
  return {{"capabilities",
           {{"positionEncoding", bytes_ ? "utf-8" : "utf-16"},
            {"textDocumentSync", {{"openClose", true}, {"change", kFullText}}},
            {"definitionProvider", true},
            {"hoverProvider", true}}},
          {"serverInfo", {{"name", "optrace"}, {"version", version_}}}};
}

void LanguageServer::Session::notice(const std::string& method, const Json& parameters) {
  if (method == "exit") {
    ended_ = true;
    return;
  }
  if (!method.starts_with("textDocument/did")) return;
  const Json& document = member(parameters, "textDocument");
  const std::string uri = text_in(document, "uri");
  if (method == "textDocument/didClose") {
    files_.erase(uri);
  } else if (method == "textDocument/didOpen") {
    if (files_.size() < kMaxOpenFiles)
      files_.insert_or_assign(uri, PythonSource(text_in(document, "text")));
  } else if (method == "textDocument/didChange") {
    const Json& changes = member(parameters, "contentChanges");
    if (changes.is_array() && !changes.empty() && files_.contains(uri))
      files_.insert_or_assign(uri, PythonSource(text_in(changes.back(), "text")));
  }
}

std::optional<LanguageServer::Session::Question> LanguageServer::Session::question(
    const Json& parameters) {
  const auto file = files_.find(text_in(member(parameters, "textDocument"), "uri"));
  const std::size_t line = number_in(member(parameters, "position"), "line");
  const std::size_t character = number_in(member(parameters, "position"), "character");
  if (file == files_.end()) return std::nullopt;
  const std::string_view text = file->second.line(line);
  const auto name = file->second.name_at(line, bytes_ ? character : bytes_before(text, character));
  if (!name) return std::nullopt;
  auto found = answers_.find(file->second.full_names(*name));
  if (!found) return std::nullopt;
  const auto units = [&](std::size_t bytes) { return bytes_ ? bytes : units_before(text, bytes); };
  return Question{
      std::move(*found),
      {{"start", position(line, units(name->begin))}, {"end", position(line, units(name->end))}}};
}

Json LanguageServer::Session::definition(const Json& parameters) {
  Json places = Json::array();
  if (const auto asked = question(parameters)) {
    for (const LocalPlace& place : answers_.definitions(asked->found)) {
      const Json start = position(place.line - 1, 0);
      places.push_back({{"uri", "file://" + percent_encoded(place.file.native())},
                        {"range", {{"start", start}, {"end", start}}}});
    }
  }
  return places;
}

Json LanguageServer::Session::hover(const Json& parameters) {
  const auto asked = question(parameters);
  if (!asked) return nullptr;
  return {{"contents", {{"kind", "markdown"}, {"value", answers_.description(asked->found)}}},
          {"range", asked->range}};
}

LanguageServer::LanguageServer(NameAnswers& answers, std::string version)
    : session_(std::make_unique<Session>(answers, std::move(version))) {}

LanguageServer::~LanguageServer() = default;

std::optional<std::string> LanguageServer::answer(const std::string& text) {
  const std::optional<Json> response = session_->answer(text);
  return response ? std::optional(write_json(*response)) : std::nullopt;
}

bool LanguageServer::ended() const {
  return session_->ended();
}

bool LanguageServer::shut_down() const {
  return session_->shut_down();
}

}  // namespace optrace
