#pragma once

#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "lookup/source_text/python_source.h"
#include "src/language_server/name_answers.h"

namespace optrace {

/// A language server for Python files: go to definition and hover on names of PyTorch (Language
/// Server Protocol 3.17). Knows what was opened, and answers one message at a time.
class LanguageServer {
 public:
  /// `answers` must outlive this. `version` is optrace's: "0.1.0".
  LanguageServer(NameAnswers& answers, std::string version)
      : answers_(answers), version_(std::move(version)) {}

  /// Returns the response to a message; nothing for a notification.
  std::optional<nlohmann::json> answer(const std::string& text);

  /// True after the notification `exit`.
  bool ended() const { return ended_; }
  /// True after the request `shutdown`, which comes before `exit`.
  bool shut_down() const { return shut_down_; }

 private:
  struct Question;

  nlohmann::json result_of(const std::string& method, const nlohmann::json& parameters);
  void notice(const std::string& method, const nlohmann::json& parameters);
  nlohmann::json initialize(const nlohmann::json& parameters);
  nlohmann::json definition(const nlohmann::json& parameters);
  nlohmann::json hover(const nlohmann::json& parameters);
  std::optional<Question> question(const nlohmann::json& parameters);

  NameAnswers& answers_;
  std::string version_;
  std::map<std::string, PythonSource> files_;  ///< What is open, by URI.
  bool bytes_ = false;                         ///< Positions are bytes, not UTF-16 code units.
  bool initialized_ = false;
  bool shut_down_ = false;
  bool ended_ = false;
};

}  // namespace optrace
