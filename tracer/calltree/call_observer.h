#pragma once

#include <cstdint>

namespace optrace {

/// Is told of each call that is counted.
class CallObserver {
 public:
  CallObserver() = default;
  virtual ~CallObserver() = default;
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;

  /// `path` is an index into the counted paths. Returns a number for end().
  virtual std::uint32_t begin(std::uint32_t thread, std::uint32_t path, std::uint64_t time) = 0;
  virtual void end(std::uint32_t thread, std::uint32_t call, std::uint64_t time) = 0;
};

}  // namespace optrace
