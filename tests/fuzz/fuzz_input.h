#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/descriptor.h"

namespace optrace::fuzz {

/// A file in memory with the given bytes, for readers that take a path.
class InputFile {
 public:
  explicit InputFile(std::string_view bytes) : file_(::memfd_create("input", MFD_CLOEXEC)) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t size = ::write(file_.get(), bytes.data() + done, bytes.size() - done);
      if (size <= 0) break;
      done += static_cast<std::size_t>(size);
    }
  }
  int descriptor() const { return file_.get(); }
  std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", file_.get()); }

 private:
  Descriptor file_;
};

/// A fuzzer's bytes, split into the parts that a reader's input consists of.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : bytes_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return bytes_.empty(); }
  std::string_view rest() const { return bytes_; }

  /// Returns the next value, with zeros for the bytes after the end of the input.
  template <typename T>
  T take() {
    T value{};
    const std::string_view part = take(sizeof value);
    if (!part.empty()) std::memcpy(&value, part.data(), part.size());
    return value;
  }
  std::string_view take(std::size_t size) {
    const std::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(part.size());
    return part;
  }
  /// Returns the next part, which is preceded by its size (16 bits).
  std::string_view take_sized() { return take(take<std::uint16_t>()); }

 private:
  std::string_view bytes_;
};

/// Calls `read`, which must accept its input or refuse it with an Error that has a message.
template <typename Read>
void refuses_or_reads(Read read) {
  try {
    read();
  } catch (const Error& error) {
    if (std::string_view(error.what()).empty()) __builtin_trap();
  }
}

/// Passes the address of `value` to an empty assembly statement, so that the compiler can't
/// optimise the value away.
template <typename T>
void use(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

/// Reads every byte of a text, so that AddressSanitizer detects invalid memory.
inline void use_text(std::string_view text) {
  std::size_t sum = 0;
  for (const char character : text) sum += static_cast<unsigned char>(character);
  use(sum);
}

}  // namespace optrace::fuzz

/// Begins the function that reads an input, `data` of `size` bytes, and returns 0. In a fuzzer it
/// is the function that libFuzzer calls; in the unit tests, all readers are in one program.
#ifdef OPTRACE_FUZZER
#define OPTRACE_READER(name) OPTRACE_READER_FUNCTION(LLVMFuzzerTestOneInput)
#else
#define OPTRACE_READER(name) OPTRACE_READER_FUNCTION(fuzz_##name)
#endif
#define OPTRACE_READER_FUNCTION(function)                              \
  extern "C" int function(const std::uint8_t* data, std::size_t size); \
  extern "C" int function(const std::uint8_t* data, std::size_t size)
