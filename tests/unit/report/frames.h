#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "report/model/report.h"

namespace optrace::test {

/// Returns a frame without a source, a time and children.
inline Frame frame(Layer layer, const std::string& name, std::uint64_t calls = 1) {
  Frame made;
  made.layer = layer;
  made.name = name;
  made.calls = calls;
  return made;
}

inline Frame frame(Layer layer, const std::string& name, std::vector<Frame> children) {
  Frame made = frame(layer, name);
  made.children = std::move(children);
  return made;
}

/// Returns a frame that took `total` ns in thread 7.
inline Frame timed_frame(Layer layer, const std::string& name, std::uint64_t total) {
  Frame made = frame(layer, name);
  made.thread = 7;
  made.time = FrameTime{total, FrameTime::Range{1, total}};
  return made;
}

/// Returns the frame of an op's call that took `total` ns in thread 7.
inline Frame op_call(const std::string& op, std::uint64_t total) {
  Frame made = timed_frame(Layer::dispatcher, "at::_ops::call", total);
  made.op = op;
  made.detail.edit()["step"] = "call";
  return made;
}

/// Returns the frames as a list. Frames can't be copied, so an initializer list can't hold them.
template <typename... Frames>
std::vector<Frame> list(Frames... frames) {
  std::vector<Frame> made;
  (made.push_back(std::move(frames)), ...);
  return made;
}

}  // namespace optrace::test
