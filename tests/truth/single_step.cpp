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

// Executable memory of a module.
struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  int protection = 0;
};

enum class Transfer : std::uint8_t { none, call, jump, ret };

// How the handler executes an instruction in place of the processor.
enum class Emulation : std::uint8_t {
  none,      // It does not: the processor executes it with the trap flag on.
  direct,    // `operand` is the target.
  ret,       // `operand` is the number of bytes that are popped after the return address.
  by_value,  // The target is the register `base`.
  by_memory  // The target is in memory, at `operand` + base + (index << scale).
};

constexpr std::uint8_t kNoRegister = 0xFF;

// A decoded instruction.
struct Instruction {
  std::uint64_t address = 0;
  std::uint64_t operand = 0;       // See Emulation; for all direct jumps, the target.
  std::uint32_t function = kNone;  // The function that contains it.
  std::uint8_t size = 0;           // 0: the bytes are no instruction.
  Transfer transfer = Transfer::none;
  Emulation emulation = Emulation::none;
  std::uint8_t base = kNoRegister;
  std::uint8_t index = kNoRegister;
  std::uint8_t scale = 0;
  std::uint8_t original = 0;  // The byte that a breakpoint replaces.
  bool is_entry = false;
  bool has_target = false;     // A direct jump or call.
  bool falls_through = false;  // The next instruction may be executed after it, without a return.
  bool discovered = false;
  bool has_breakpoint = false;  // While stepping.
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

constexpr std::size_t kInstructions = std::size_t{1} << 23;  // A hash table's size: a power of two.
constexpr std::size_t kEntries = std::size_t{1} << 23;
constexpr std::size_t kDepth = std::size_t{1} << 14;
constexpr std::size_t kBreakpoints = std::size_t{1} << 21;
constexpr std::size_t kPending = std::size_t{1} << 20;
constexpr std::uint8_t kBreakpoint = 0xCC;
constexpr const char* kNotDecoded = "an instruction could not be decoded";

std::vector<Module> g_modules;
std::array<unsigned long long, 2> g_module_counts;  // Loads and unloads when g_modules was read.
std::vector<Function> g_functions;                  // Sorted by address; one per address.
ZydisDecoder g_decoder;
Arena<Instruction> g_instructions;
Arena<Entry> g_entries;
Arena<ShadowFrame> g_shadow;
std::vector<Span> g_code;            // Where breakpoints are set: of all modules but this one.
Arena<std::uint64_t> g_breakpoints;  // Addresses.
Arena<std::uint64_t> g_pending;      // Addresses to discover.
std::size_t g_breakpoint_count = 0;
bool g_breakpoints_set = false;
bool g_with_trap_flag = false;       // The stepped thread runs with the trap flag.
Instruction* g_suspended = nullptr;  // Its breakpoint is removed for one instruction.
void* g_thread = nullptr;            // The stepped thread.
volatile std::sig_atomic_t g_in_handler = 0;
bool g_every_instruction = false;
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

void fail(const char* why) {
  if (g_failure == nullptr) g_failure = why;
}

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

// Remembers the executable segments, except those of this library: it steps through its own code.
void add_code(const dl_phdr_info& info) {
  std::vector<Span> spans;
  const auto own = std::bit_cast<std::uint64_t>(&single_step_end);
  for (std::uint16_t i = 0; i < info.dlpi_phnum; ++i) {
    const Elf64_Phdr& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uint64_t begin = info.dlpi_addr + segment.p_vaddr;
    const std::uint64_t end = begin + segment.p_memsz;
    if (begin <= own && own < end) return;
    const int write = (segment.p_flags & PF_W) != 0 ? PROT_WRITE : 0;
    spans.push_back({begin, end, PROT_READ | PROT_EXEC | write});
  }
  g_code.insert(g_code.end(), spans.begin(), spans.end());
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
  add_code(*info);
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

// `near` is a function that may contain the address.
std::uint32_t function_at(std::uint64_t address, std::uint32_t near) {
  if (near != kNone && address > g_functions[near].address &&
      address - g_functions[near].address < g_functions[near].size &&
      (near + 1 == g_functions.size() || address < g_functions[near + 1].address)) {
    return near;
  }
  auto after = std::upper_bound(
      g_functions.begin(), g_functions.end(), address,
      [](std::uint64_t value, const Function& function) { return value < function.address; });
  if (after == g_functions.begin()) return kNone;
  --after;
  if (address != after->address && address - after->address >= after->size) return kNone;
  return static_cast<std::uint32_t>(after - g_functions.begin());
}

// Returns whether the address is in the code that may have breakpoints.
bool is_code(std::uint64_t address) {
  static std::size_t last = 0;  // Usually the same as before.
  const auto contains = [&](std::size_t index) {
    return address >= g_code[index].begin && address < g_code[index].end;
  };
  if (last < g_code.size() && contains(last)) return true;
  const auto after =
      std::upper_bound(g_code.begin(), g_code.end(), address,
                       [](std::uint64_t value, const Span& span) { return value < span.begin; });
  if (after == g_code.begin()) return false;
  last = static_cast<std::size_t>(after - g_code.begin()) - 1;
  return contains(last);
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

// Sets how the handler executes the instruction, and where a direct jump goes.
void describe(const ZydisDecodedInstruction& decoded, Instruction& made) {
  if (made.transfer == Transfer::none) {
    made.falls_through = decoded.mnemonic != ZYDIS_MNEMONIC_UD2 &&
                         decoded.mnemonic != ZYDIS_MNEMONIC_HLT &&
                         decoded.mnemonic != ZYDIS_MNEMONIC_INT3;
    return;
  }
  constexpr std::uint64_t kPrefixes = ZYDIS_ATTRIB_HAS_OPERANDSIZE | ZYDIS_ATTRIB_HAS_ADDRESSSIZE |
                                      ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS;
  const auto& raw = decoded.raw;
  const std::uint64_t next = made.address + decoded.length;
  if (raw.imm[0].is_relative) {
    made.has_target = true;
    made.operand = next + static_cast<std::uint64_t>(raw.imm[0].value.s);
    made.falls_through = decoded.meta.category == ZYDIS_CATEGORY_COND_BR;
  }
  if (decoded.opcode_map != ZYDIS_OPCODE_MAP_DEFAULT || (decoded.attributes & kPrefixes) != 0) {
    return;
  }
  switch (decoded.opcode) {
    case 0xE8:  // call
    case 0xE9:  // jmp
    case 0xEB:
      made.emulation = Emulation::direct;
      return;
    case 0xC2:
      made.operand = raw.imm[0].value.u;
      [[fallthrough]];
    case 0xC3:
      made.emulation = Emulation::ret;
      return;
    case 0xFF:
      break;
    default:
      return;
  }
  if (raw.modrm.reg != 2 && raw.modrm.reg != 4) return;  // Not a near call or jump.
  const auto extended = [](unsigned number, unsigned bit) {
    return static_cast<std::uint8_t>(number | bit << 3);
  };
  if (raw.modrm.mod == 3) {
    made.emulation = Emulation::by_value;
    made.base = extended(raw.modrm.rm, raw.rex.B);
    return;
  }
  made.emulation = Emulation::by_memory;
  made.operand = static_cast<std::uint64_t>(raw.disp.value);
  const bool may_lack_base = raw.modrm.mod == 0;
  if (raw.modrm.rm != 4) {
    if (may_lack_base && raw.modrm.rm == 5) {
      made.operand += next;
    } else {
      made.base = extended(raw.modrm.rm, raw.rex.B);
    }
    return;
  }
  if (!may_lack_base || raw.sib.base != 5) made.base = extended(raw.sib.base, raw.rex.B);
  const std::uint8_t index = extended(raw.sib.index, raw.rex.X);
  if (index != 4) made.index = index;
  made.scale = raw.sib.scale;
}

// ------------------------------ The functions up to on_trap() run in the SIGTRAP handler.

// Returns the place of an instruction in the table, or the place for it. Neighbours in the code are
// neighbours in the table, so that the table takes little memory.
std::size_t place_of(std::uint64_t address) {
  static_assert(kInstructions == std::size_t{1} << 23);
  const std::uint64_t block = ((address >> 6) * 0x9E3779B97F4A7C15ULL) >> (64 - 23 + 6);
  std::size_t place = block << 6 | (address & 63);
  while (g_instructions[place].used && g_instructions[place].address != address) {
    place = (place + 1) & (kInstructions - 1);
  }
  return place;
}

// Returns the decoded instruction, or null.
Instruction* known_at(std::uint64_t address) {
  Instruction& found = g_instructions[place_of(address)];
  return found.used ? &found : nullptr;
}

// Decodes the instruction when it is first asked for. Returns null, and fails, if there are too
// many.
Instruction* instruction_at(std::uint64_t address, std::uint32_t near = kNone) {
  const std::size_t place = place_of(address);
  Instruction& made = g_instructions[place];
  if (made.used) return &made;
  if (g_instruction_count >= kInstructions / 2) {
    fail("too many distinct instructions");
    return nullptr;
  }
  // The bytes up to the maximum length may not be mapped, but Zydis reads only those it needs.
  ZydisDecodedInstruction decoded;
  const bool valid = ZYAN_SUCCESS(
      ZydisDecoderDecodeInstruction(&g_decoder, nullptr, std::bit_cast<const void*>(address),
                                    ZYDIS_MAX_INSTRUCTION_LENGTH, &decoded));
  ++g_instruction_count;
  made.address = address;
  made.function = function_at(address, near);
  made.is_entry = made.function != kNone && g_functions[made.function].address == address;
  made.base = made.index = kNoRegister;
  made.original = *std::bit_cast<const std::uint8_t*>(address);
  made.used = true;
  if (valid) {
    made.size = decoded.length;
    made.transfer = transfer_of(decoded);
    describe(decoded, made);
    for (std::uint64_t i = 1; i < made.size; ++i) {
      const Instruction* inner = known_at(address + i);
      if (inner != nullptr && inner->has_breakpoint) fail("an instruction contains another");
    }
  }
  return &made;
}

void write_code(std::uint64_t address, std::uint8_t byte) {
  *std::bit_cast<volatile std::uint8_t*>(address) = byte;
}

void add_breakpoint(Instruction& instruction) {
  if (instruction.has_breakpoint) return;
  if (g_breakpoint_count == kBreakpoints) {
    fail("too many breakpoints");
    return;
  }
  for (std::uint64_t i = 1; i < ZYDIS_MAX_INSTRUCTION_LENGTH; ++i) {
    const Instruction* before = known_at(instruction.address - i);
    if (before != nullptr && before->size > i) fail("an instruction contains another");
  }
  instruction.has_breakpoint = true;
  g_breakpoints[g_breakpoint_count++] = instruction.address;
  write_code(instruction.address, kBreakpoint);
}

void set_breakpoints(bool set) {
  for (std::size_t i = 0; i < g_breakpoint_count; ++i) {
    const Instruction& instruction = g_instructions[place_of(g_breakpoints[i])];
    write_code(instruction.address, set ? kBreakpoint : instruction.original);
  }
  g_breakpoints_set = set;
}

void add_pending(std::size_t& count, std::uint64_t address) {
  if (count == kPending) {
    fail("too many jumps");
    return;
  }
  g_pending[count++] = address;
}

// Returns whether the thread must not reach the address without a trap: the address is a function's
// entry, or outside of the code that may have breakpoints.
bool must_be_seen(std::uint64_t address, std::uint32_t near) {
  if (!is_code(address)) return true;
  const Instruction* instruction = instruction_at(address, near);
  return instruction == nullptr || instruction->is_entry;
}

// Follows the code from an address in g_code, along all direct jumps, up to where the shadow stack
// may change: calls, returns, indirect jumps, and the instructions before a function's entry. Sets
// breakpoints there. The code between, with its loops, then runs at full speed.
void discover(std::uint64_t start) {
  std::size_t pending = 0;
  add_pending(pending, start);
  std::uint32_t near = kNone;
  while (pending > 0 && g_failure == nullptr) {
    Instruction* const instruction = instruction_at(g_pending[--pending], near);
    if (instruction == nullptr || instruction->discovered) continue;
    instruction->discovered = true;
    near = instruction->function;
    const std::uint64_t next = instruction->address + instruction->size;
    const bool jumps = instruction->transfer == Transfer::jump && instruction->has_target;
    if (instruction->size == 0 || (instruction->transfer != Transfer::none && !jumps) ||
        (jumps && must_be_seen(instruction->operand, near)) ||
        (instruction->falls_through && must_be_seen(next, near))) {
      add_breakpoint(*instruction);
      continue;
    }
    if (jumps) add_pending(pending, instruction->operand);
    if (instruction->falls_through) add_pending(pending, next);
  }
}

void push(std::uint64_t slot, std::uint32_t entry, std::uint32_t function) {
  if (g_depth == kDepth) {
    fail("the stack is too deep");
    return;
  }
  g_shadow[g_depth++] = {slot, entry, function};
}

// Records the entry of `function`. How::tail means a jump by the topmost frame.
void enter(std::uint32_t function, How how, std::uint64_t slot) {
  if (g_entry_count == kEntries) {
    fail("too many entries");
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

// Follows the thread to an address that it reached by executing g_previous.
void step(std::uint64_t address, std::uint64_t stack_pointer) {
  const Instruction* current = instruction_at(address);
  if (current == nullptr) return;
  if (current->size == 0) fail(kNotDecoded);
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

std::uint64_t& register_of(greg_t* registers, std::uint8_t number) {
  static constexpr std::array<int, 16> kPlaces = {
      REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return reinterpret_cast<std::uint64_t&>(registers[kPlaces[number]]);
}

std::uint64_t& word_at(std::uint64_t address) {
  return *std::bit_cast<std::uint64_t*>(address);
}

// Executes a call, jump or return. Returns false if the processor must do it.
bool emulate(const Instruction& instruction, greg_t* registers) {
  std::uint64_t& stack_pointer = register_of(registers, 4);
  std::uint64_t target = instruction.operand;
  switch (instruction.emulation) {
    case Emulation::none:
      return false;
    case Emulation::direct:
      break;
    case Emulation::ret:
      target = word_at(stack_pointer);
      stack_pointer += 8 + instruction.operand;
      break;
    case Emulation::by_value:
      target = register_of(registers, instruction.base);
      break;
    case Emulation::by_memory:
      if (instruction.base != kNoRegister) target += register_of(registers, instruction.base);
      if (instruction.index != kNoRegister) {
        target += register_of(registers, instruction.index) << instruction.scale;
      }
      target = word_at(target);
      break;
  }
  if (instruction.transfer == Transfer::call) {
    stack_pointer -= 8;
    word_at(stack_pointer) = instruction.address + instruction.size;
  }
  registers[REG_RIP] = static_cast<greg_t>(target);
  return true;
}

// Continues at the instruction pointer: at full speed if the code there has been discovered, else
// with the trap flag. An instruction with a breakpoint is executed here.
void proceed(greg_t* registers) {
  while (g_failure == nullptr && g_stepping != 0) {
    const auto address = static_cast<std::uint64_t>(registers[REG_RIP]);
    if (!is_code(address)) {
      g_with_trap_flag = true;
      return;
    }
    discover(address);
    Instruction* const instruction = known_at(address);
    if (instruction == nullptr || !instruction->has_breakpoint) {
      g_with_trap_flag = false;
      return;
    }
    g_previous = *instruction;
    if (instruction->size == 0) {
      fail(kNotDecoded);
      return;
    }
    if (!emulate(*instruction, registers)) {
      write_code(address, instruction->original);
      g_suspended = instruction;
      g_with_trap_flag = true;
      return;
    }
    step(static_cast<std::uint64_t>(registers[REG_RIP]), register_of(registers, 4));
    if (g_steps >= g_max_steps) fail("more steps than were allowed");
  }
}

// A breakpoint was hit by the handler itself, in a function that the decoder calls.
void on_own_trap(greg_t* registers) {
  registers[REG_RIP] -= 1;
  const Instruction* instruction = known_at(static_cast<std::uint64_t>(registers[REG_RIP]));
  if (instruction != nullptr && emulate(*instruction, registers)) return;
  set_breakpoints(false);
  fail("the handler reached a breakpoint");
}

void on_stepped(greg_t* registers) {
  const auto address = static_cast<std::uint64_t>(registers[REG_RIP]);
  if (g_with_trap_flag) {
    if (g_suspended != nullptr) {
      write_code(g_suspended->address, kBreakpoint);
      g_suspended = nullptr;
    }
    step(address, register_of(registers, 4));
    if (g_steps >= g_max_steps) fail("more steps than were allowed");
  } else {
    const Instruction* instruction = known_at(address - 1);
    if (instruction == nullptr || !instruction->has_breakpoint) {
      fail("a trap without a breakpoint");
      return;
    }
    registers[REG_RIP] -= 1;
  }
  proceed(registers);
}

void on_trap(int, siginfo_t*, void* context) {
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (g_in_handler != 0) {
    on_own_trap(registers);
    return;
  }
  g_in_handler = 1;
  if (__builtin_thread_pointer() != g_thread) {
    registers[REG_RIP] -= 1;
    fail("another thread reached a breakpoint");
  } else if (g_stepping != 0 && g_failure == nullptr) {
    on_stepped(registers);
  }
  const bool ends = g_stepping == 0 || g_failure != nullptr;
  if (ends && g_breakpoints_set) set_breakpoints(false);
  if (ends || !g_with_trap_flag) {
    registers[REG_EFL] &= ~kTrapFlag;
  } else {
    registers[REG_EFL] |= kTrapFlag;
  }
  g_in_handler = 0;
}

// Makes the code writable, or as it was. Returns whether that worked.
bool unlock_code(bool unlock) {
  constexpr std::uint64_t kPage = 0x1000;
  for (const Span& span : g_code) {
    const std::uint64_t begin = span.begin & ~(kPage - 1);
    if (mprotect(std::bit_cast<void*>(begin), span.end - begin,
                 unlock ? span.protection | PROT_WRITE : span.protection) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

const char* single_step_prepare(std::uint64_t max_steps, int every_instruction) {
  g_max_steps = max_steps;
  std::array<unsigned long long, 2> counts{};
  dl_iterate_phdr(count_modules, static_cast<void*>(&counts));
  const bool every = every_instruction != 0;
  if (!g_functions.empty() && counts == g_module_counts && every == g_every_instruction) {
    return nullptr;
  }
  g_every_instruction = every;
  g_module_counts = counts;
  for (const Module& module : g_modules) munmap(module.image, module.image_size);
  g_modules.clear();
  g_functions.clear();
  // Cached instructions refer to functions by their index in the old list.
  g_instructions.clear();
  g_instruction_count = 0;
  g_breakpoint_count = 0;
  g_code.clear();
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
  if (every) g_code.clear();
  std::sort(g_code.begin(), g_code.end(),
            [](const Span& a, const Span& b) { return a.begin < b.begin; });
  ZydisDecoderInit(&g_decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  if (!g_instructions.reserve(kInstructions) || !g_entries.reserve(kEntries) ||
      !g_shadow.reserve(kDepth) || !g_breakpoints.reserve(kBreakpoints) ||
      !g_pending.reserve(kPending)) {
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
  if (!unlock_code(true)) {
    fail("the code could not be made writable");
    unlock_code(false);
    return;
  }
  g_previous = {};
  g_suspended = nullptr;
  g_with_trap_flag = true;
  g_thread = __builtin_thread_pointer();
  stack_t stack = {};
  stack.ss_sp = g_handler_stack.data();
  stack.ss_size = g_handler_stack.size();
  sigaltstack(&stack, &g_former_stack);
  struct sigaction action = {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGTRAP, &action, &g_former_action);
  // From here on, no other library may be called.
  set_breakpoints(true);
  g_stepping = 1;
  asm volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}

std::uint64_t single_step_end() {
  if (g_stepping == 0) return 0;
  g_stepping = 0;
  // The handler clears the trap flag at the next instruction.
  asm volatile("nop; nop" ::: "memory");
  if (g_breakpoints_set) set_breakpoints(false);
  unlock_code(false);
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
