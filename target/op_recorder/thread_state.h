#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include "target/recorder/fingerprint.h"
#include "target/recorder/json_text.h"

namespace optrace_ops {

/// State of the thread that influences the dispatcher's choice in addition to the arguments.
struct ThreadState {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  bool grad_mode = c10::GradMode::is_enabled();
  bool inference_mode = c10::InferenceMode::is_enabled();
  std::int64_t dispatch_modes = c10::impl::TorchDispatchModeTLS::stack_len();
};

/// The line of TorchScript that the thread's interpreter executes.
class ScriptLine {
 public:
  ScriptLine() {
    // The innermost function is the last.
    if (const auto calls = torch::jit::currentCallstack(); !calls.empty())
      range_ = calls.back().range;
  }

  void add_to(Fingerprint& fingerprint) const {
    fingerprint.add(reinterpret_cast<std::uintptr_t>(range_.source().get()));
    fingerprint.add(range_.start());
  }

  void write(JsonText& json) const {
    if (range_.source() == nullptr) return;
    // A function that was saved is in another file than the one that it was made from.
    const auto original = range_.findSourceRangeThatGenerated();
    const auto place = (original ? *original : range_).file_line_col();
    if (!place) return;
    json.key("script");
    json.open('{');
    json.key("file");
    json.string(std::get<0>(*place));
    json.key("line");
    json.number(static_cast<std::uint64_t>(std::get<1>(*place)));
    json.close('}');
  }

 private:
  torch::jit::SourceRange range_;
};

}  // namespace optrace_ops
