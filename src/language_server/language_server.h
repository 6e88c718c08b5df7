#pragma once

#include <memory>
#include <optional>
#include <string>

#include "src/language_server/name_answers.h"

namespace optrace {

/// A language server for Python files: go to definition and hover on names of PyTorch (Language
/// Server Protocol 3.17). Knows what was opened, and answers one message at a time.
class LanguageServer {
 public:
  /// `answers` must outlive this. `version` is optrace's: "0.1.0".
  LanguageServer(NameAnswers& answers, std::string version);
  ~LanguageServer();
  LanguageServer(const LanguageServer&) = delete;
  LanguageServer& operator=(const LanguageServer&) = delete;

  /// Returns the JSON text of the response to that of a message; nothing for a notification.
  std::optional<std::string> answer(const std::string& text);

  /// True after the notification `exit`.
  bool ended() const;
  /// True after the request `shutdown`, which comes before `exit`.
  bool shut_down() const;

 private:
  class Session;

  std::unique_ptr<Session> session_;
};

}  // namespace optrace
