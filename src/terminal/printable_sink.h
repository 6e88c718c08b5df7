#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "platform/files/output_sink.h"

namespace optrace {

/// Passes text on in large pieces of whole lines, made harmless by printable_output().
class PrintableSink : public OutputSink {
 public:
  /// Returns false once nobody wants more text, which is then dropped.
  using Destination = std::function<bool(std::string_view)>;

  explicit PrintableSink(Destination destination) : destination_(std::move(destination)) {}

  void write(std::string_view text) override;

  /// Passes on the rest. To be called after the last write.
  void finish();

 private:
  void pass_on(std::size_t size);

  Destination destination_;
  std::string collected_;
  bool open_ = true;
};

}  // namespace optrace
