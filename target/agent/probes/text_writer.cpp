// Built with -mgeneral-regs-only: write_unprotected runs in the middle of an arbitrary function, as
// optrace_agent_count_return does (return_probes.cpp).

#include "target/agent/probes/text_writer.h"

#include <cstring>

#include <sys/mman.h>

namespace optrace::agent {

OwnFile open_own_memory() {
  return {"/proc/self/mem", O_RDWR};
}

int write_text(const OwnFile& memory, const LoadedModule& module, std::uint64_t address,
               const std::uint8_t* bytes, std::uint64_t size) {
  const auto descriptor = static_cast<std::uint64_t>(memory.number());
  if (memory && system_call(SYS_pwrite64, descriptor, address_of(bytes), size, address) ==
                    static_cast<long>(size)) {
    return 0;
  }
  return write_unprotected(module, address, bytes, size);
}

int write_unprotected(const LoadedModule& module, std::uint64_t address, const std::uint8_t* bytes,
                      std::uint64_t size) {
  const LoadedModule::Text* const text = module.text_around(address, size);
  const std::uint64_t page = page_floor(address);
  const std::uint64_t pages = page_ceiling(address + size) - page;
  const long writable = system_call(SYS_mprotect, page, pages, PROT_READ | PROT_WRITE | PROT_EXEC);
  if (text == nullptr || writable != 0) return static_cast<int>(writable);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  auto* const to = reinterpret_cast<volatile std::uint8_t*>(address);
  for (std::uint64_t i = 0; i < size; ++i) to[i] = bytes[i];
  system_call(SYS_mprotect, page, pages, static_cast<std::uint64_t>(text->protection));
  return 0;
}

void TextWriter::write(const volatile std::uint8_t* at, std::uint8_t byte) {
  const auto address = reinterpret_cast<std::uint64_t>(at);
  if (address < first_ || page_floor(address) != page_floor(first_)) {
    flush();
    first_ = address;
  }
  const std::uint64_t needed = address - first_ + 1;
  if (needed > size_) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    std::memcpy(copy_ + size_, reinterpret_cast<const std::uint8_t*>(first_ + size_),
                needed - size_);
    size_ = needed;
  }
  copy_[needed - 1] = byte;
}

int TextWriter::flush() {
  const int result = size_ == 0 ? 0 : write_text(memory_, module_, first_, copy_, size_);
  error_ = error_ == 0 ? result : error_;
  size_ = 0;
  return error_;
}

}  // namespace optrace::agent
