#pragma once

#include <string_view>

namespace optrace {

/// `device` is a device's type, with or without an index, as PyTorch prints it: `cpu`, `cuda`,
/// `cuda:0` (c10/core/Device.cpp).
constexpr bool is_host(std::string_view device) {
  return device == "cpu";
}

constexpr bool is_cuda(std::string_view device) {
  constexpr std::string_view kCuda = "cuda";
  return device.substr(0, kCuda.size()) == kCuda;
}

}  // namespace optrace
