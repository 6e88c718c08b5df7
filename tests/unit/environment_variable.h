#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace optrace::test {

/// Sets or removes an environment variable, and restores it when destroyed.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* const previous = std::getenv(name)) previous_ = previous;
    set(value);
  }
  ~EnvironmentVariable() { set(previous_); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  void set(const std::optional<std::string>& value) const {
    value ? ::setenv(name_, value->c_str(), 1) : ::unsetenv(name_);
  }

  const char* name_;
  std::optional<std::string> previous_;
};

}  // namespace optrace::test
