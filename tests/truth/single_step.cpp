#include "truth/single_step.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <Zydis/Zydis.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

namespace {

constexpr std::uint32_t kNone = 0xFFFFFFFF;
constexpr greg_t kTrapFlag = 0x100;

struct Module {
  std::string path;
  std::uint64_t bias = 0;
  void* image = nullptr;  // The file, mapped.
  std::size_t image_size = 0;
};

struct Function {
  std::uint64_t address = 0;  // At run time.
  std::uint64_t size = 0;
  std::uint32_t module = 0;
  std::string_view symbol;  // In the mapped file, which stays mapped.
};

enum class Transfer : std::uint8_t { none, call, jump, ret };

// A decoded instruction. Created when its address is first reached.
struct Instruction {
  std::uint64_t address = 0;
  std::uint32_t function = kNone;  // The function that contains it.
  std::uint8_t size = 0;
  Transfer transfer = Transfer::none;
  bool is_entry = false;
  bool used = false;
};

enum class How : std::uint8_t { call, tail, turn, shift };

struct Entry {
  std::uint32_t function = kNone;
  std::uint32_t parent = kNone;  // Index into entries.
  std::uint32_t depth = 0;
  How how = How::call;
  std::uint64_t slot = 0;
};

struct ShadowFrame {
  std::uint64_t slot = 0;       // Address of its return address.
  std::uint32_t entry = kNone;  // kNone: a PLT stub or other code without a symbol at its start.
  std::uint32_t function = kNone;
};

// Maps memory far from the modules: the memory near them must stay free for later probes.
void* map_far(std::size_t size, int protection, int flags, int descriptor) {
  static std::uint64_t next = 0x1000'0000'0000;  // Only a hint.
  void* memory = mmap(std::bit_cast<void*>(next), size, protection, flags, descriptor, 0);
  constexpr std::uint64_t kGap = 0x100'0000;
  next += (size + 2 * kGap) / kGap * kGap;
  return memory;
}

// Memory for the signal handler: reserved in advance, touched only when needed.
template <typename T>
class Arena {
 public:
  bool reserve(std::size_t count) {
    if (data_ != nullptr) return true;
    void* memory = map_far(count * sizeof(T), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (memory == MAP_FAILED) return false;
    data_ = static_cast<T*>(memory);
    capacity_ = count;
    return true;
  }
  T& operator[](std::size_t index) noexcept { return data_[index]; }
  std::size_t capacity() const noexcept { return capacity_; }
  void clear() {
    if (data_ != nullptr) madvise(data_, capacity_ * sizeof(T), MADV_DONTNEED);  // Zeros it.
  }

 private:
  T* data_ = nullptr;
  std::size_t capacity_ = 0;
};

constexpr std::size_t kInstructions = std::size_t{1} << 22;  // A hash table's size: a power of two.
constexpr std::size_t kEntries = std::size_t{1} << 23;
constexpr std::size_t kDepth = std::size_t{1} << 14;

std::vector<Module> g_modules;
std::array<unsigned long long, 2> g_module_counts;  // Loads and unloads when g_modules was read.
std::vector<Function> g_functions;                  // Sorted by address; one per address.
ZydisDecoder g_decoder;
Arena<Instruction> g_instructions;
Arena<Entry> g_entries;
Arena<ShadowFrame> g_shadow;
std::size_t g_instruction_count = 0;
std::size_t g_entry_count = 0;
std::size_t g_depth = 0;
std::uint64_t g_steps = 0;
std::uint64_t g_max_steps = 0;
Instruction g_previous;
volatile std::sig_atomic_t g_stepping = 0;
const char* g_failure = nullptr;
struct sigaction g_former_action = {};
stack_t g_former_stack = {};
alignas(64) std::array<char, std::size_t{128} * 1024> g_handler_stack;
std::array<char, 512> g_message;

const char* message(const char* what, const char* path) {
  std::snprintf(g_message.data(), g_message.size(), "%s %s: %s", what, path, std::strerror(errno));
  return g_message.data();
}

// The cold part that GCC splits off a function is not a function: it is entered and left by jumps.
bool is_function(std::string_view symbol) {
  const auto cold = symbol.find(".cold");
  return cold == std::string_view::npos || (cold + 5 != symbol.size() && symbol[cold + 5] != '.');
}

// Bounds-checked access to the bytes of a mapped file.
class Image {
 public:
  Image(const char* data, std::size_t size) : data_(data), size_(size) {}
  template <typename T>
  const T* at(std::uint64_t offset, std::uint64_t count = 1) const {
    if (offset > size_ || count > (size_ - offset) / sizeof(T) || offset % alignof(T) != 0) {
      return nullptr;
    }
    return reinterpret_cast<const T*>(data_ + offset);
  }
  std::string_view text(std::uint64_t offset) const {
    if (offset >= size_) return {};
    return {data_ + offset, strnlen(data_ + offset, size_ - offset)};
  }

 private:
  const char* data_;
  std::size_t size_;
};

void read_functions(const Image& image, std::uint32_t module, std::uint64_t bias) {
  const auto* header = image.at<Elf64_Ehdr>(0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
  const auto* sections = image.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  if (sections == nullptr) return;
  const Elf64_Shdr* table = nullptr;
  for (std::uint16_t i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type == SHT_SYMTAB) table = &sections[i];
    if (sections[i].sh_type == SHT_DYNSYM && table == nullptr) table = &sections[i];
  }
  if (table == nullptr || table->sh_link >= header->e_shnum) return;
  const std::uint64_t count = table->sh_size / sizeof(Elf64_Sym);
  const auto* symbols = image.at<Elf64_Sym>(table->sh_offset, count);
  if (symbols == nullptr) return;
  const std::uint64_t names = sections[table->sh_link].sh_offset;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Elf64_Sym& symbol = symbols[i];
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF ||
        symbol.st_value == 0) {
      continue;
    }
    const std::string_view name = image.text(names + symbol.st_name);
    if (!is_function(name)) continue;
    g_functions.push_back({symbol.st_value + bias, symbol.st_size, module, name});
  }
}

int add_module(dl_phdr_info* info, std::size_t, void* failure) {
  std::array<char, 4096> executable{};
  const char* path = info->dlpi_name;
  if (*path == '\0') {
    if (readlink("/proc/self/exe", executable.data(), executable.size() - 1) < 0) return 0;
    path = executable.data();
  }
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;  // The vDSO is not a file.
  struct stat status{};
  void* memory = MAP_FAILED;
  if (fstat(descriptor, &status) == 0 && status.st_size > 0) {
    memory = map_far(static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, descriptor);
  }
  close(descriptor);
  if (memory == MAP_FAILED) {
    *static_cast<const char**>(failure) = message("cannot map", path);
    return 1;
  }
  const auto index = static_cast<std::uint32_t>(g_modules.size());
  g_modules.push_back({path, info->dlpi_addr, memory, static_cast<std::size_t>(status.st_size)});
  read_functions(Image(static_cast<const char*>(memory), static_cast<std::size_t>(status.st_size)),
                 index, info->dlpi_addr);
  return 0;
}

// Stores the numbers of modules loaded and unloaded so far.
int count_modules(dl_phdr_info* info, std::size_t, void* counts) {
  *static_cast<std::array<unsigned long long, 2>*>(counts) = {info->dlpi_adds, info->dlpi_subs};
  return 1;
}

std::uint32_t function_at(std::uint64_t address) {
  auto after = std::upper_bound(
      g_functions.begin(), g_functions.end(), address,
      [](std::uint64_t value, const Function& function) { return value < function.address; });
  if (after == g_functions.begin()) return kNone;
  --after;
  if (address != after->address && address - after->address >= after->size) return kNone;
  return static_cast<std::uint32_t>(after - g_functions.begin());
}

Transfer transfer_of(const ZydisDecodedInstruction& instruction) {
  switch (instruction.meta.category) {
    case ZYDIS_CATEGORY_CALL:
      return Transfer::call;
    case ZYDIS_CATEGORY_RET:
      return Transfer::ret;
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_UNCOND_BR:
      return Transfer::jump;
    default:
      return Transfer::none;
  }
}

// ------------------------------ The functions up to on_trap() run in the SIGTRAP handler.

const Instruction* instruction_at(std::uint64_t address) {
  std::size_t place = (address * 0x9E3779B97F4A7C15ULL) >> (64 - 22);
  static_assert(kInstructions == std::size_t{1} << 22);
  while (g_instructions[place].used) {
    if (g_instructions[place].address == address) return &g_instructions[place];
    place = (place + 1) & (kInstructions - 1);
  }
  if (g_instruction_count >= kInstructions / 2) {
    g_failure = "too many distinct instructions";
    return nullptr;
  }
  ZydisDecodedInstruction decoded;
  // The instruction is about to be executed, so its bytes are mapped. The bytes after it, up to the
  // maximum length, may not be, but Zydis reads only the bytes that it needs.
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&g_decoder, nullptr,
                                                  std::bit_cast<const void*>(address),
                                                  ZYDIS_MAX_INSTRUCTION_LENGTH, &decoded))) {
    g_failure = "an instruction could not be decoded";
    return nullptr;
  }
  ++g_instruction_count;
  Instruction& made = g_instructions[place];
  made.address = address;
  made.function = function_at(address);
  made.is_entry = made.function != kNone && g_functions[made.function].address == address;
  made.size = decoded.length;
  made.transfer = transfer_of(decoded);
  made.used = true;
  return &made;
}

void push(std::uint64_t slot, std::uint32_t entry, std::uint32_t function) {
  if (g_depth == kDepth) {
    g_failure = "the stack is too deep";
    return;
  }
  g_shadow[g_depth++] = {slot, entry, function};
}

// Records the entry of `function`. How::tail means a jump by the topmost frame.
void enter(std::uint32_t function, How how, std::uint64_t slot) {
  if (g_entry_count == kEntries) {
    g_failure = "too many entries";
    return;
  }
  std::uint32_t parent = kNone;
  for (std::size_t i = g_depth; i-- > 0;) {
    if (how == How::turn && g_shadow[i].function == function) {
      parent = g_entries[g_shadow[i].entry].parent;
      break;
    }
    if (how != How::turn && g_shadow[i].entry != kNone) {
      parent = g_shadow[i].entry;
      break;
    }
  }
  const auto entry = static_cast<std::uint32_t>(g_entry_count++);
  g_entries[entry] = {function, parent, static_cast<std::uint32_t>(g_depth), how, slot};
  if (how != How::turn) push(slot, entry, function);
}

void jumped_to_entry(const Instruction& current, std::uint64_t stack_pointer) {
  while (g_depth > 0 && g_shadow[g_depth - 1].slot < stack_pointer) --g_depth;
  if (g_previous.function == current.function) {
    enter(current.function, How::turn, stack_pointer);
    return;
  }
  const bool in_place = g_depth == 0 || g_shadow[g_depth - 1].slot == stack_pointer;
  if (in_place && g_depth > 0 && g_shadow[g_depth - 1].entry == kNone) {
    --g_depth;  // A PLT stub was called and jumped here.
    enter(current.function, How::call, stack_pointer);
    return;
  }
  enter(current.function, in_place ? How::tail : How::shift, stack_pointer);
}

void step(std::uint64_t address, std::uint64_t stack_pointer) {
  const Instruction* current = instruction_at(address);
  if (current == nullptr) return;
  ++g_steps;
  switch (g_previous.transfer) {
    case Transfer::call:
      // Frames at or below the new return slot are dead, however they ended (longjmp, exceptions).
      while (g_depth > 0 && g_shadow[g_depth - 1].slot <= stack_pointer) --g_depth;
      if (current->is_entry) {
        enter(current->function, How::call, stack_pointer);
      } else {
        push(stack_pointer, kNone, kNone);
      }
      break;
    case Transfer::ret:
      while (g_depth > 0 && g_shadow[g_depth - 1].slot < stack_pointer) --g_depth;
      break;
    case Transfer::jump:
    case Transfer::none:
      // A `rep` instruction traps at its own address once per iteration.
      if (current->is_entry && address != g_previous.address) {
        jumped_to_entry(*current, stack_pointer);
      }
      break;
  }
  g_previous = *current;
}

void on_trap(int, siginfo_t*, void* context) {
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (g_stepping != 0 && g_failure == nullptr) {
    step(static_cast<std::uint64_t>(registers[REG_RIP]),
         static_cast<std::uint64_t>(registers[REG_RSP]));
    if (g_steps >= g_max_steps) g_failure = "more steps than were allowed";
  }
  if (g_stepping == 0 || g_failure != nullptr) registers[REG_EFL] &= ~kTrapFlag;
}

}  // namespace

const char* single_step_prepare(std::uint64_t max_steps) {
  g_max_steps = max_steps;
  std::array<unsigned long long, 2> counts{};
  dl_iterate_phdr(count_modules, static_cast<void*>(&counts));
  if (!g_functions.empty() && counts == g_module_counts) return nullptr;
  g_module_counts = counts;
  for (const Module& module : g_modules) munmap(module.image, module.image_size);
  g_modules.clear();
  g_functions.clear();
  // Cached instructions refer to functions by their index in the old list.
  g_instructions.clear();
  g_instruction_count = 0;
  const char* failure = nullptr;
  dl_iterate_phdr(add_module, static_cast<void*>(&failure));
  if (failure != nullptr) return failure;
  // Of several names for one address, keep the first in sort order, so that runs agree.
  std::sort(g_functions.begin(), g_functions.end(), [](const Function& a, const Function& b) {
    return a.address != b.address ? a.address < b.address : a.symbol < b.symbol;
  });
  g_functions.erase(
      std::unique(g_functions.begin(), g_functions.end(),
                  [](const Function& a, const Function& b) { return a.address == b.address; }),
      g_functions.end());
  ZydisDecoderInit(&g_decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  if (!g_instructions.reserve(kInstructions) || !g_entries.reserve(kEntries) ||
      !g_shadow.reserve(kDepth)) {
    return message("cannot reserve memory for", "the steps");
  }
  return nullptr;
}

void single_step_begin() {
  g_entry_count = 0;
  g_depth = 0;
  g_steps = 0;
  g_failure = g_functions.empty() ? "single_step_prepare was not called" : nullptr;
  if (g_failure != nullptr) return;
  g_previous = {};
  stack_t stack = {};
  stack.ss_sp = g_handler_stack.data();
  stack.ss_size = g_handler_stack.size();
  sigaltstack(&stack, &g_former_stack);
  struct sigaction action = {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGTRAP, &action, &g_former_action);
  g_stepping = 1;
  asm volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}

std::uint64_t single_step_end() {
  if (g_stepping == 0) return 0;
  g_stepping = 0;
  // The handler clears the trap flag at the next instruction.
  asm volatile("nop; nop" ::: "memory");
  sigaction(SIGTRAP, &g_former_action, nullptr);
  sigaltstack(&g_former_stack, nullptr);
  return g_steps;
}

const char* single_step_write(const char* path) {
  if (g_failure != nullptr) return g_failure;
  std::FILE* file = std::fopen(path, "we");
  if (file == nullptr) return message("cannot write", path);
  for (std::size_t i = 0; i < g_modules.size(); ++i) {
    std::fprintf(file, "module %zu %s\n", i, g_modules[i].path.c_str());
  }
  std::vector<bool> written(g_functions.size());
  for (std::size_t i = 0; i < g_entry_count; ++i) {
    const std::uint32_t index = g_entries[i].function;
    if (written[index]) continue;
    written[index] = true;
    const Function& function = g_functions[index];
    std::fprintf(file, "function %" PRIu32 " %" PRIu32 " %" PRIx64 " %.*s\n", index,
                 function.module, function.address - g_modules[function.module].bias,
                 static_cast<int>(function.symbol.size()), function.symbol.data());
  }
  static constexpr std::array<const char*, 4> kHow = {"call", "tail", "turn", "shift"};
  for (std::size_t i = 0; i < g_entry_count; ++i) {
    const Entry& entry = g_entries[i];
    std::fprintf(file, "entry %" PRIu32 " %" PRId64 " %s %" PRIu32 " %" PRIx64 "\n", entry.function,
                 entry.parent == kNone ? std::int64_t{-1} : std::int64_t{entry.parent},
                 kHow[static_cast<std::size_t>(entry.how)], entry.depth, entry.slot);
  }
  std::fprintf(file, "end %" PRIu64 "\n", g_steps);
  const bool failed = std::ferror(file) != 0;
  if (std::fclose(file) != 0 || failed) return message("cannot write", path);
  return nullptr;
}
