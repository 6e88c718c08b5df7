#pragma once

#include <cstddef>
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
  made.detail.edit().dispatch = DispatchDetail();
  return made;
}

/// Returns a tensor whose elements lie in memory without gaps, in the order of its dimensions.
inline TensorFacts tensor(const std::string& dtype, const Sizes& shape,
                          const std::string& device = "cpu") {
  Sizes strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  TensorFacts made;
  made.shape = shape;
  made.strides = strides;
  made.dtype = dtype;
  made.device = device;
  return made;
}

/// The frame of an op's call with an op record, in the making.
class OpCallBuilder {
 public:
  OpCallBuilder(const std::string& op, std::uint64_t calls)
      : frame_(frame(Layer::dispatcher, "at::_ops::call", calls)) {
    frame_.op = op;
    frame_.detail.edit().dispatch.edit().arguments.emplace();
  }

  OpCallBuilder argument(const std::string& name, Value value) && {
    dispatch().arguments->push_back({name, std::move(value)});
    return std::move(*this);
  }

  operator Frame() && { return std::move(frame_); }

 private:
  DispatchDetail& dispatch() { return frame_.detail.edit().dispatch.edit(); }

  Frame frame_;
};

/// Begins the frame of an op's call: `call("aten::mm").argument("self", tensor("float32", {2,
/// 3}))`.
inline OpCallBuilder call(const std::string& op, std::uint64_t calls = 1) {
  return {op, calls};
}

/// Returns the detail of a dispatcher frame, for changes.
inline DispatchDetail& dispatch_of(Frame& frame_) {
  return frame_.detail.edit().dispatch.edit();
}

/// Returns the frames as a list. Frames can't be copied, so an initializer list can't hold them.
template <typename... Frames>
std::vector<Frame> list(Frames... frames) {
  std::vector<Frame> made;
  (made.push_back(std::move(frames)), ...);
  return made;
}

}  // namespace optrace::test
