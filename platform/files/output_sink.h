#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace optrace {

/// The receiver of an output that is written piece by piece, so that it need not fit into memory.
/// Pieces may be of a few bytes: a sink collects them where that matters.
class OutputSink {
 public:
  OutputSink() = default;
  virtual ~OutputSink() = default;
  OutputSink(const OutputSink&) = delete;
  OutputSink& operator=(const OutputSink&) = delete;

  virtual void write(std::string_view text) = 0;

  template <typename... Arguments>
  void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    print_formatted(format, fmt::make_format_args(arguments...));
  }

 private:
  void print_formatted(fmt::string_view format, fmt::format_args arguments);
};

/// Keeps the output in memory.
class StringSink : public OutputSink {
 public:
  void write(std::string_view text) override { text_ += text; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// Returns what `write` writes to the sink that it gets.
template <typename Write>
std::string written(const Write& write) {
  StringSink sink;
  write(static_cast<OutputSink&>(sink));
  return sink.take();
}

}  // namespace optrace
