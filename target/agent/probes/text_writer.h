#pragma once

#include <cstdint>

#include "target/agent/process/modules.h"
#include "target/agent/process/own_file.h"
#include "target/agent/process/pages.h"

namespace optrace::agent {

/// /proc/self/mem, opened for write_text().
OwnFile open_own_memory();

/// Changes text that other threads may be executing. It is written through `memory`, because it
/// then never has to be writable, and a program that changes its protection meanwhile is not
/// disturbed. Where the system does not allow that, does what write_unprotected() does. Returns 0
/// or -errno.
int write_text(const OwnFile& memory, const LoadedModule& module, std::uint64_t address,
               const std::uint8_t* bytes, std::uint64_t size);

/// Changes text that is made writable for a moment, for when a program may be in a sandbox that
/// lets it open no file. Uses general registers only. Returns 0 or -errno.
int write_unprotected(const LoadedModule& module, std::uint64_t address, const std::uint8_t* bytes,
                      std::uint64_t size);

/// Writes many bytes of text: those of one page at once, before those of another page.
class TextWriter {
 public:
  explicit TextWriter(const LoadedModule& module) : module_(module) {}

  void write(const volatile std::uint8_t* at, std::uint8_t byte);

  /// Writes what is not written yet. Returns 0, or -errno if anything could not be written.
  int flush();

 private:
  const LoadedModule& module_;
  const OwnFile memory_ = open_own_memory();
  std::uint64_t first_ = 0;  ///< Run-time address of `copy_`.
  std::uint64_t size_ = 0;
  int error_ = 0;
  std::uint8_t copy_[kPage];
};

}  // namespace optrace::agent
