#include "tracer/attach/attach_target.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/elf/elf_text.h"
#include "platform/elf/processor.h"
#include "platform/elf/read_at.h"
#include "platform/process/running_process.h"
#include "pytorch/installed/torch_version.h"
#include "pytorch/installed/wheel_libraries.h"

namespace optrace {
namespace {

constexpr int kOldestPython = 9;
constexpr int kNewestPython = 14;
constexpr std::pair kOldestTorch{2, 6};
constexpr std::size_t kMapsLimit = RunningProcess::kMapsLimit;
constexpr std::size_t kVersionLimit = 1 << 16;
/// CPython's table of dynamic symbols has 50 KB, and that of a program that embeds it hardly more.
constexpr std::uint64_t kTableLimit = std::uint64_t{16} << 20;
constexpr std::size_t kMaxNameLength = 256;  // The names that are looked for are much shorter.
constexpr std::size_t kComparedCode = 32;
constexpr std::string_view kDeleted = " (deleted)";
constexpr std::string_view kPythons =
    "optrace attaches to CPython 3.9 to 3.14 for x86-64 Linux that has imported torch 2.6 or newer";

/// A function that is new in a version of CPython. From 3.11 on, Py_Version contains the version
/// itself. From Doc/data/stable_abi.dat and Include/cpython.
struct VersionMark {
  int minor;
  std::string_view symbol;
};
constexpr std::array<VersionMark, 3> kVersionMarks{
    {{10, "PyModule_AddObjectRef"}, {9, "PyObject_CallNoArgs"}, {8, "PyConfig_InitPythonConfig"}}};
/// The functions called in the process, in the order of find_functions().
constexpr std::array<std::string_view, 6> kCalled{"Py_AddPendingCall",         "PyRun_SimpleString",
                                                  "PyThread_start_new_thread", "PyGILState_Ensure",
                                                  "PyGILState_Release",        "Py_IsInitialized"};
using CalledFunctions = std::array<std::uint64_t, kCalled.size()>;
/// Exported only by builds without a GIL (Include/refcount.h).
constexpr std::string_view kFreeThreadedMark = "_Py_DecRefShared";

[[noreturn]] void refuse(const std::string& what_was_wrong, const std::string& remedy) {
  throw Error(ExitStatus::usage, what_was_wrong, remedy);
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

/// Returns true if the file at a path in /proc was removed, or replaced by another of the same
/// name.
bool is_deleted(std::string_view path) {
  return path.ends_with(kDeleted);
}

/// An ELF file that other users can change at any time, so that it is read, not mapped.
class ElfFile {
 public:
  explicit ElfFile(Descriptor file) : file_(std::move(file)) {
    const std::optional<Elf64_Ehdr> header = read<Elf64_Ehdr>(0);
    elf_ = header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0;
    if (!elf_) return;
    header_ = *header;
    if (header_.e_phentsize != sizeof(Elf64_Phdr)) return;
    const std::uint64_t count = std::min<std::uint64_t>(header_.e_phnum, kMaxSegments);
    const std::vector<std::byte> table = bytes(header_.e_phoff, count * sizeof(Elf64_Phdr));
    for (std::uint64_t at = 0; const auto segment = read_at<Elf64_Phdr>(table, at);
         at += sizeof(Elf64_Phdr))
      if (segment->p_type == PT_LOAD) segments_.push_back(*segment);
  }

  bool is_elf() const { return elf_; }
  bool is_ours() const {
    return elf_ && header_.e_ident[EI_CLASS] == ELFCLASS64 &&
           header_.e_ident[EI_DATA] == ELFDATA2LSB && header_.e_machine == EM_X86_64;
  }
  /// Returns the processor of the file, if it is not 64-bit x86-64. e_machine has the same offset
  /// in 32-bit files.
  std::string processor() const {
    if (header_.e_ident[EI_DATA] != ELFDATA2LSB) return "a big-endian processor";
    if (header_.e_machine == EM_X86_64) return "x86-64 with 32-bit addresses (x32)";
    return processor_name(header_.e_machine);
  }

  /// Returns the segments that are loaded, of the first kMaxSegments of the file.
  const std::vector<Elf64_Phdr>& loaded() const { return segments_; }

  /// Returns the addresses (as linked) of the symbols in .dynsym, functions and data alike; empty
  /// without this table.
  std::map<std::string, std::uint64_t, std::less<>> exported() const {
    std::map<std::string, std::uint64_t, std::less<>> found;
    if (header_.e_shentsize != sizeof(Elf64_Shdr)) return found;
    const std::vector<std::byte> sections =
        bytes(header_.e_shoff, header_.e_shnum * sizeof(Elf64_Shdr));
    for (std::uint64_t at_section = 0; const auto table = read_at<Elf64_Shdr>(sections, at_section);
         at_section += sizeof(Elf64_Shdr)) {
      if (table->sh_type != SHT_DYNSYM) continue;
      const auto names = section(table->sh_link);
      if (!names) break;
      const std::vector<std::byte> entries = bytes(table->sh_offset, table->sh_size);
      const std::vector<std::byte> text = bytes(names->sh_offset, names->sh_size);
      for (std::uint64_t at = 0; const auto symbol = read_at<Elf64_Sym>(entries, at);
           at += sizeof(Elf64_Sym)) {
        if (symbol->st_shndx == SHN_UNDEF) continue;
        found.emplace(elf_text(text, symbol->st_name, kMaxNameLength), symbol->st_value);
      }
      break;
    }
    return found;
  }

  /// Returns `size` bytes that are loaded at `address` (as linked); fewer or none if the file has
  /// no more.
  std::vector<std::byte> at_address(std::uint64_t address, std::uint64_t size) const {
    for (const Elf64_Phdr& segment : loaded()) {
      const std::uint64_t within = address - segment.p_vaddr;
      if (address < segment.p_vaddr || within >= segment.p_filesz) continue;
      return bytes(segment.p_offset + within, std::min(size, segment.p_filesz - within));
    }
    return {};
  }

 private:
  template <typename T>
  std::optional<T> read(std::uint64_t offset) const {
    return read_at<T>(bytes(offset, sizeof(T)), 0);
  }

  std::optional<Elf64_Shdr> section(std::uint64_t index) const {
    return read<Elf64_Shdr>(header_.e_shoff + index * sizeof(Elf64_Shdr));
  }

  std::vector<std::byte> bytes(std::uint64_t offset, std::uint64_t size) const {
    if (size > kTableLimit) return {};
    std::vector<std::byte> result(size);
    const ssize_t got =
        ::pread(file_.get(), result.data(), result.size(), static_cast<off_t>(offset));
    result.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return result;
  }

  static constexpr std::uint64_t kMaxSegments = 256;

  Descriptor file_;
  Elf64_Ehdr header_{};
  bool elf_ = false;
  std::vector<Elf64_Phdr> segments_;
};

/// Inspects one process. The steps are in the order of inspect().
class Inspection {
 public:
  Inspection(pid_t process, Entrance entrance) : process_(process), entrance_(entrance) {}

  AttachTarget inspect();

 private:
  void check_state();
  void find_executable();
  void find_root();
  void find_interpreter();
  void find_version(const ElfFile& file,
                    const std::map<std::string, std::uint64_t, std::less<>>& exported);
  void find_torch();
  void check_torch_version();
  /// Finds the functions that attaching calls. Compares their first bytes to check that the file is
  /// the one that is mapped, and that the functions are not patched.
  void find_functions(const ElfFile& file, const std::vector<std::uint64_t>& biases,
                      const CalledFunctions& linked);
  bool is_mapped(const ElfFile& file, const Descriptor& memory, std::uint64_t bias,
                 std::uint64_t linked) const;

  /// Returns run-time address minus address as linked, for each mapping of the file. A program may
  /// also have mapped the file to read it.
  std::vector<std::uint64_t> possible_biases(const std::string& path, const ElfFile& file) const;
  std::string described() const {
    return fmt::format("process {} ({})", process_.id(), shown(status_.name));
  }
  /// Throws because something can't be read: the process ended, or access is not allowed.
  [[noreturn]] void fail_to_read(int error) const { throw why_not_allowed(process_.id(), error); }

  RunningProcess process_;
  Entrance entrance_;
  ProcessStatus status_;
  std::vector<MappedPart> parts_;
  AttachTarget target_;
};

void Inspection::check_state() {
  status_ = process_.status();
  target_.process = process_.id();
  target_.process_inside = status_.ids.empty() ? process_.id() : status_.ids.back();
  if (status_.ended()) {
    refuse(status_.threads > 1
               ? fmt::format("the main thread of {} has ended, and its Python too", described())
               : fmt::format("{} has ended and waits for its parent to notice (a zombie)",
                             described()),
           "Give the PID of a running Python.");
  }
  if (process_.id() == ::getpid()) {
    refuse(fmt::format("{} is optrace itself", process_.id()),
           "Give the PID of a running Python (in a shell, $! is the last process started in the "
           "background, and $$ is the shell).");
  }
  if (!status_.has_memory) {
    refuse(fmt::format("{} is a kernel thread", described()),
           fmt::format("Give the PID of a running Python: {}.", kPythons));
  }
  if (status_.tracer != 0) fail_to_read(EPERM);
  if (status_.state == 'T') {
    throw Error(
        ExitStatus::failed, fmt::format("{} is stopped (Ctrl-Z, or SIGSTOP)", described()),
        fmt::format("Continue it first: kill -CONT {}, or `fg` in its shell.", process_.id()));
  }
  if (status_.seccomp == 1) {
    throw Error(ExitStatus::failed,
                fmt::format("{} runs under seccomp's strict mode: it may only read, write and end",
                            described()),
                "Start it outside of that sandbox.");
  }
}

void Inspection::find_executable() {
  const RunningProcess::Text link = process_.read_link("exe");
  if (link.error != 0) fail_to_read(link.error);
  // This link opens the right file even if another one has its name by now.
  const ElfFile file(process_.open("exe", O_RDONLY));
  std::string path = link.text;
  if (is_deleted(path)) path.resize(path.size() - kDeleted.size());
  target_.executable = path;
  const std::string name = file_name(path);
  if (name.starts_with("qemu-")) {
    refuse(
        fmt::format("{} is a program for another processor, run by {}", described(), shown(name)),
        fmt::format("{}.", kPythons));
  }
  if (file.is_elf() && !file.is_ours()) {
    refuse(fmt::format("{} is a program for another processor: {} is built for {}", described(),
                       shown(path), file.processor()),
           fmt::format("{}.", kPythons));
  }
}

void Inspection::find_root() {
  const RunningProcess us(::getpid());
  const auto about_root = [](const RunningProcess& process) {
    struct stat about{};
    const Descriptor root = process.open("root", O_PATH | O_DIRECTORY);
    if (!root || ::fstat(root.get(), &about) != 0) about = {};
    return std::pair(about.st_dev, about.st_ino);
  };
  const RunningProcess::Text its = process_.read_link("ns/mnt");
  if (its.error != 0) fail_to_read(its.error);
  if (its.text != us.read_link("ns/mnt").text || about_root(process_) != about_root(us))
    target_.root = fmt::format("/proc/{}/root", process_.id());
}

std::vector<std::uint64_t> Inspection::possible_biases(const std::string& path,
                                                       const ElfFile& file) const {
  std::vector<std::uint64_t> biases;
  const std::vector<Elf64_Phdr>& segments = file.loaded();
  // Executable mappings only match executable segments. The others are for text that was moved to
  // large pages, which have no file.
  for (const bool executable : {true, false}) {
    for (const MappedPart& part : parts_) {
      if (part.path != path || part.executable != executable) continue;
      for (const Elf64_Phdr& segment : segments) {
        const bool segment_executable = (segment.p_flags & PF_X) != 0;
        const std::uint64_t offset = segment.p_offset / kPage * kPage;
        if (segment_executable != executable || part.offset < offset ||
            part.offset - offset > segment.p_filesz) {
          continue;
        }
        biases.push_back(part.start - segment.p_vaddr / kPage * kPage - (part.offset - offset));
      }
    }
  }
  return biases;
}

void Inspection::find_interpreter() {
  const RunningProcess::Text maps = process_.read("maps", kMapsLimit);
  if (maps.error == EFBIG) {
    throw Error(ExitStatus::failed,
                fmt::format("{} has more than {} MiB of mappings", described(), kMapsLimit >> 20),
                "This is unusual for a Python; see its /proc/PID/maps.");
  }
  if (maps.error != 0) fail_to_read(maps.error);
  parts_ = parse_process_maps(maps.text);

  // The executable comes before any library, as for the dynamic linker. libpython comes next, so
  // that most other libraries needn't be opened.
  const RunningProcess::Text link = process_.read_link("exe");
  std::vector<std::string> files;
  files.reserve(parts_.size());
  for (const MappedPart& part : parts_) files.push_back(part.path);
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  std::ranges::stable_sort(files, {}, [&link](const std::string& path) {
    if (path == link.text) return 0;
    return file_name(path).starts_with("libpython") ? 1 : 2;
  });
  std::optional<std::string> foreign;
  bool deleted_library = false;
  for (const std::string& path : files) {
    const std::string name = file_name(path);
    if (name.starts_with("libpypy") || name.starts_with("pypy")) {
      refuse(fmt::format("{} is PyPy, not CPython: it runs {}", described(), shown(path)),
             fmt::format("{}.", kPythons));
    }
    Descriptor opened =
        path == link.text ? process_.open("exe", O_RDONLY) : process_.open_inside(path);
    if (!opened) {
      deleted_library |= name.starts_with("libpython") && is_deleted(path);
      continue;
    }
    const ElfFile file(std::move(opened));
    if (!file.is_elf()) continue;
    if (!file.is_ours()) {
      foreign = path;
      continue;
    }
    const auto exported = file.exported();
    CalledFunctions linked{};
    std::ranges::transform(kCalled, linked.begin(), [&exported](std::string_view function) {
      const auto found = exported.find(function);
      return found == exported.end() ? 0 : found->second;
    });
    if (std::ranges::find(linked, 0U) != linked.end()) continue;
    const std::vector<std::uint64_t> biases = possible_biases(path, file);
    if (biases.empty()) continue;
    target_.interpreter = path == link.text ? target_.executable : std::filesystem::path(path);
    find_version(file, exported);
    find_torch();
    if (entrance_ == Entrance::ptrace) find_functions(file, biases, linked);
    return;
  }
  if (deleted_library) {
    refuse(fmt::format("the Python of {} was removed or replaced after it started (an upgrade)",
                       described()),
           "Restart the program, then attach.");
  }
  const std::string what = fmt::format("it runs {}", shown(target_.executable.string()));
  if (target_.executable.filename().string().starts_with("python")) {
    refuse(fmt::format("{} is a static Python that does not export the C API: {} (neither it nor a "
                       "library has Py_AddPendingCall)",
                       described(), what),
           fmt::format("Use a standard build of CPython. {}.", kPythons));
  }
  if (foreign) {
    refuse(fmt::format("{} runs code for another processor: {}", described(), shown(*foreign)),
           fmt::format("{}.", kPythons));
  }
  refuse(fmt::format("{} is not Python: {}", described(), what),
         fmt::format("Give the PID of a running Python. The children of a launcher, a shell or "
                     "torchrun are listed by `pgrep -P {}`. {}.",
                     process_.id(), kPythons));
}

void Inspection::find_version(const ElfFile& file,
                              const std::map<std::string, std::uint64_t, std::less<>>& exported) {
  int major = 3;
  int minor = 0;
  if (const auto version = exported.find("Py_Version"); version != exported.end()) {
    // PY_VERSION_HEX, 0x030B07F0: major, minor, micro, level and serial.
    const auto hex =
        read_at<std::uint64_t>(file.at_address(version->second, sizeof(std::uint64_t)), 0);
    major = static_cast<int>(hex.value_or(0) >> 24 & 0xFF);
    minor = static_cast<int>(hex.value_or(0) >> 16 & 0xFF);
  } else {
    for (const VersionMark& mark : kVersionMarks) {
      if (!exported.contains(mark.symbol)) continue;
      minor = mark.minor;
      break;
    }
  }
  if (major != 3 || minor < kOldestPython || minor > kNewestPython) {
    const std::string version =
        major == 3 && minor == 0 ? "older than 3.8" : fmt::format("{}.{}", major, minor);
    refuse(fmt::format("{} runs CPython {} ({})", described(), version,
                       shown(target_.interpreter.string())),
           fmt::format("{}.", kPythons));
  }
  target_.python_minor = minor;
  if (exported.contains(kFreeThreadedMark)) {
    refuse(fmt::format("{} runs a free-threaded build of CPython 3.{} ({})", described(), minor,
                       shown(target_.interpreter.string())),
           "Attaching relies on the GIL: use the standard build (python3, not python3t), or start "
           "the program with optrace run.");
  }
}

void Inspection::find_torch() {
  for (const MappedPart& part : parts_) {
    std::string path = part.path;
    const bool deleted = is_deleted(path);
    if (deleted) path.resize(path.size() - kDeleted.size());
    const std::filesystem::path library = path;
    if (library.filename() != kTorchPython || library.parent_path().filename() != "lib") continue;
    // A file may really have this name.
    if (deleted && !process_.open_inside(part.path)) {
      refuse(fmt::format("the torch loaded by {} was removed or replaced afterwards ({})",
                         described(), shown(path)),
             "Restart the program, then attach.");
    }
    target_.torch_folder = library.parent_path().parent_path();
    return check_torch_version();
  }
  refuse(fmt::format("{} is a Python (3.{}) that has not imported torch", described(),
                     target_.python_minor),
         "Attach after it has imported torch, or start it with optrace run. `pgrep -P` lists the "
         "children of a launcher.");
}

/// Parses the first two numbers of `2.6.0+cu124`.
std::optional<std::pair<int, int>> version_numbers(std::string_view version) {
  std::pair<int, int> numbers;
  const char* const last = version.data() + version.size();
  const auto major =
      std::from_chars(version.data(), version.data() + version.size(), numbers.first);
  if (major.ec != std::errc{} || major.ptr == last || *major.ptr != '.') return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, last, numbers.second);
  if (minor.ec != std::errc{}) return std::nullopt;
  return numbers;
}

void Inspection::check_torch_version() {
  const std::filesystem::path path = target_.torch_folder / "version.py";
  const Descriptor file = process_.open_inside(path);
  const RunningProcess::Text text =
      file ? read_all(file, kVersionLimit) : RunningProcess::Text{.text = {}, .error = errno};
  if (text.error != 0) {
    refuse(fmt::format("the version of the torch loaded by {} can't be read: {}: {}", described(),
                       shown(path.string()), describe_errno(text.error)),
           "A release wheel (pip install torch) has that file, readable, beside its lib folder.");
  }
  const std::string found = parse_torch_version(text.text).version.value_or("");
  const std::string version = shown(found);
  const auto numbers = version_numbers(found);
  if (!numbers) {
    refuse(
        fmt::format("the version of the torch loaded by {} can't be read: {} contains \"{}\"",
                    described(), shown(path.string()), version),
        "A release wheel (pip install torch) has a line like __version__ = '2.6.0+cu124' there.");
  }
  if (*numbers < kOldestTorch) {
    refuse(fmt::format("{} has loaded torch {} ({})", described(), version,
                       shown(target_.torch_folder.string())),
           fmt::format("{}.", kPythons));
  }
}

bool Inspection::is_mapped(const ElfFile& file, const Descriptor& memory, std::uint64_t bias,
                           std::uint64_t linked) const {
  const std::vector<std::byte> expected = file.at_address(linked, kComparedCode);
  std::vector<std::byte> found(expected.size());
  const ssize_t size =
      ::pread(memory.get(), found.data(), found.size(), static_cast<off_t>(bias + linked));
  if (size < 0 && errno != EIO && errno != EINVAL) fail_to_read(errno);
  return !expected.empty() && found == expected;
}

void Inspection::find_functions(const ElfFile& file, const std::vector<std::uint64_t>& biases,
                                const CalledFunctions& linked) {
  const Descriptor memory = process_.open("mem", O_RDONLY);
  if (!memory) fail_to_read(errno);
  for (const std::uint64_t bias : biases) {
    if (!std::ranges::all_of(linked, [&](std::uint64_t address) {
          return is_mapped(file, memory, bias, address);
        })) {
      continue;
    }
    target_.interpreter_bias = bias;
    target_.add_pending_call = bias + linked[0];
    target_.run_simple_string = bias + linked[1];
    target_.start_thread = bias + linked[2];
    target_.ensure_gil = bias + linked[3];
    target_.release_gil = bias + linked[4];
    target_.is_initialized = bias + linked[5];
    return;
  }
  if (process_.ended()) fail_to_read(ESRCH);
  refuse(fmt::format("the Python in {} differs from {}: the file was replaced after it started, or "
                     "another tool has patched its code",
                     described(), shown(target_.interpreter.string())),
         "Restart the program without such a tool, then attach.");
}

AttachTarget Inspection::inspect() {
  check_state();
  find_executable();
  find_root();
  find_interpreter();
  if (process_.ended()) fail_to_read(ESRCH);
  return std::move(target_);
}

}  // namespace

AttachTarget inspect_attach_target(pid_t process, Entrance entrance) {
  return Inspection(process, entrance).inspect();
}

}  // namespace optrace
