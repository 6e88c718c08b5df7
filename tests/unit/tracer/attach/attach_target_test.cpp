#include "tracer/attach/attach_target.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <elf.h>
#include <fmt/core.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/files/private_folder.h"
#include "platform/process/child_process.h"
#include "platform/process/running_process.h"
#include "tests/unit/small_library.h"
#include "tracer/attach/attach_refusal.h"

using namespace optrace;
using namespace optrace::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr uid_t kNobody = 65534;

/// Returns the exit status, message and remedy of the error that inspect_attach_target() throws for
/// `process`.
std::string refusal(pid_t process) {
  try {
    inspect_attach_target(process);
    return "nothing against it";
  } catch (const Error& error) {
    return fmt::format("{}: {}. {}", static_cast<int>(error.status()), error.what(),
                       error.remedy());
  }
}

std::string text_of(const Error& error) {
  return fmt::format("{}: {}. {}", static_cast<int>(error.status()), error.what(), error.remedy());
}

void wait_until(const std::function<bool()>& holds) {
  for (int tries = 0; !holds(); ++tries) {
    REQUIRE(tries < 3000);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

bool has_mapped(pid_t process, const std::string& path) {
  const RunningProcess::Text maps = RunningProcess(process).read("maps", std::size_t{1} << 24);
  return maps.text.find(path) != std::string::npos;
}

/// Starts a program that sleeps, with these libraries preloaded, and waits until they are mapped.
ChildProcess sleep_with(const std::vector<std::filesystem::path>& libraries,
                        const std::string& program = "sleep") {
  std::string preload;
  for (const auto& library : libraries) preload += library.string() + ':';
  ChildProcess child({.arguments = {program, "1000"}, .environment = {{"LD_PRELOAD", preload}}});
  wait_until([&] {
    return libraries.empty() ? has_mapped(child.id(), "libc.so")
                             : has_mapped(child.id(), libraries.back().string());
  });
  return child;
}

/// Builds a library with only the symbols that optrace looks for in a Python.
std::filesystem::path build_python(const std::filesystem::path& folder, const std::string& version,
                                   const std::string& more = "") {
  return build_library(
      folder, "python3.99.cpp",
      "extern \"C\" __attribute__((visibility(\"default\"))) const unsigned long Py_Version = " +
          version +
          ";\n"
          "extern \"C\" int Py_AddPendingCall(int n) { return n + 12345; }\n"
          "extern \"C\" int PyRun_SimpleString(int n) { return n * 12345; }\n"
          "extern \"C\" int PyThread_start_new_thread(int n) { return n - 12345; }\n"
          "extern \"C\" int PyGILState_Ensure(int n) { return n ^ 12345; }\n"
          "extern \"C\" int PyGILState_Release(int n) { return n | 12345; }\n"
          "extern \"C\" int Py_IsInitialized() { return 1; }\n" +
          more);
}

std::filesystem::path build_torch(const std::filesystem::path& folder, const std::string& version) {
  const auto torch = folder / "torch";
  std::filesystem::create_directories(torch / "lib");
  const auto built = build_library(torch / "lib", "torch_python.cpp", "int nothing;\n");
  if (!version.empty()) {
    write_bytes(torch / "version.py",
                "from typing import Optional\n\n__all__ = ['__version__']\n__version__ = '" +
                    version + "'\ndebug = False\n");
  }
  return built;
}

/// A forked process that runs `life` and then sleeps until it is killed.
class Forked {
 public:
  explicit Forked(const std::function<void()>& life) : ready_(), process_(-1) {
    REQUIRE(::pipe(ready_.data()) == 0);
    process_ = ::fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      life();
      if (::write(ready_[1], "r", 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    ::close(ready_[1]);
    char letter = 0;
    REQUIRE(::read(ready_[0], &letter, 1) == 1);
  }
  ~Forked() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    ::close(ready_[0]);
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;
  pid_t id() const { return process_; }

 private:
  std::array<int, 2> ready_;
  pid_t process_;
};

/// Returns the result of `question` in a forked process that has dropped rights with `weaker`; ""
/// if `weaker` fails.
std::string asked_by(const std::function<bool()>& weaker,
                     const std::function<std::string()>& question) {
  std::array<int, 2> answer{};
  REQUIRE(::pipe(answer.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::string text;
    if (weaker()) text = question();
    const bool written =
        ::write(answer[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(answer[1]);
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t size = 1; size > 0;) {
    size = ::read(answer[0], piece.data(), piece.size());
    if (size > 0) text.append(piece.data(), static_cast<std::size_t>(size));
  }
  ::close(answer[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  return text;
}

bool become(uid_t user, gid_t group) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(group, group, group) == 0 &&
         ::setresuid(user, user, user) == 0;
}

bool drop_capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const std::array<__user_cap_data_struct, 2> none{};
  return ::syscall(SYS_capset, &header, none.data()) == 0;
}

/// Makes ptrace fail with EPERM from now on. Returns false if that is impossible.
bool forbid_ptrace() {
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// Returns true, and prints a warning, if this process may not change its user.
bool not_root() {
  if (::geteuid() == 0) return false;
  WARN("cannot run here: changing to another user takes root");
  return true;
}

/// Returns a 32-bit program that waits forever: the 84 bytes of its headers and its code.
std::string program_of_32_bits(std::uint16_t machine) {
  constexpr std::uint32_t kAddress = 0x08048000;
  constexpr std::array<unsigned char, 9> kCode{0xB8, 29, 0, 0, 0, 0xCD, 0x80, 0xEB, 0xF7};  // pause
  Elf32_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS32;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = machine;
  header.e_version = EV_CURRENT;
  header.e_entry = kAddress + sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr);
  header.e_phoff = sizeof(Elf32_Ehdr);
  header.e_ehsize = sizeof(Elf32_Ehdr);
  header.e_phentsize = sizeof(Elf32_Phdr);
  header.e_phnum = 1;
  Elf32_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_vaddr = kAddress;
  segment.p_filesz = segment.p_memsz = sizeof header + sizeof segment + kCode.size();
  segment.p_flags = PF_R | PF_X;
  segment.p_align = 0x1000;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(&segment), sizeof segment);
  bytes.append(reinterpret_cast<const char*>(kCode.data()), kCode.size());
  return bytes;
}

std::filesystem::path executable_copy(const std::filesystem::path& to, const std::string& bytes) {
  write_bytes(to, bytes);
  std::filesystem::permissions(to, std::filesystem::perms::owner_all);
  return to;
}

/// Returns rights with which attaching is allowed: no reason that explain_refusal() reports
/// applies.
TracingRights good_rights() {
  TracingRights rights;
  rights.ours.process = 100;
  rights.ours.users = rights.ours.groups = {1000, 1000, 1000, 1000};
  rights.target = rights.ours;
  rights.target.process = 200;
  rights.target.name = "python";
  rights.target.state = 'S';
  rights.our_user_name = rights.target_user_name = "alice";
  return rights;
}

}  // namespace

TEST_CASE("a process's status is read line by line") {
  const ProcessStatus status = parse_process_status(
      "Name:\tpython 3\\n\nUmask:\t0022\nState:\tT (stopped)\nTgid:\t11407\nNgid:\t0\nPid:\t11408\n"
      "PPid:\t11405\nTracerPid:\t77\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t6\t7\t8\nFDSize:\t256\n"
      "NSpid:\t11408\t12\t3\nVmSize:\t    3060 kB\nThreads:\t4\nCapPrm:\t000001fffeffffff\n"
      "CapEff:\t0000000000080000\nSeccomp:\t2\nSeccomp_filters:\t1\n");
  CHECK(status.name == "python 3\\n");
  CHECK(status.state == 'T');
  CHECK(status.process == 11407);
  CHECK(status.thread == 11408);
  CHECK(status.tracer == 77);
  CHECK(status.ids == std::vector<pid_t>{11408, 12, 3});
  CHECK(status.users == std::array<std::uint32_t, 4>{1000, 1001, 1002, 1003});
  CHECK(status.groups == std::array<std::uint32_t, 4>{5, 6, 7, 8});
  CHECK(status.permitted == 0x1fffeffffff);
  CHECK(status.effective == 0x80000);
  CHECK(status.seccomp == 2);
  CHECK(status.threads == 4);
  CHECK(status.has_memory);
  CHECK_FALSE(status.ended());
  CHECK_FALSE(parse_process_status("Name:\tx\nState:\tZ (zombie)\n").has_memory);
  CHECK(parse_process_status("State:\tZ (zombie)\n").ended());
}

TEST_CASE("a process's mappings are read with whatever its files are called") {
  const auto parts = parse_process_maps(
      "7f00-8f00 r-xp 00001000 fe:00 1234          /usr/lib/a b.so\n"
      "8f00-9f00 rw-p 00000000 00:00 0 \n"
      "9f00-af00 rw-p 00000000 00:00 0             [heap]\n"
      "af00-bf00 r--p 00002000 fe:00 99            /tmp/new\\012line\\040.so (deleted)\n"
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n"
      "cf00-df00 r-xp 00000000 00:00 0             [vdso]\n");
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].start == 0x7f00);
  CHECK(parts[0].end == 0x8f00);
  CHECK(parts[0].offset == 0x1000);
  CHECK(parts[0].executable);
  CHECK(parts[0].path == "/usr/lib/a b.so");
  CHECK_FALSE(parts[1].executable);
  CHECK(parts[1].path == "/tmp/new\nline\\040.so (deleted)");
  CHECK(parts[2].path == kVdso);
}

TEST_CASE("readers of /proc take any bytes") {
  std::mt19937 random(7);
  const RunningProcess us(::getpid());
  const std::string status = us.read("status", std::size_t{1} << 24).text;
  const std::string maps = us.read("maps", std::size_t{1} << 24).text;
  const auto any = [&random](std::size_t limit) { return random() % limit; };
  for (int round = 0; round < 2000; ++round) {
    std::string noise(any(300), '\0');
    for (char& byte : noise) byte = static_cast<char>(any(256));
    parse_process_status(noise);
    std::size_t good = 0;
    for (const MappedPart& part : parse_process_maps(noise)) good += part.start < part.end;
    CHECK(good == parse_process_maps(noise).size());
    CHECK(shown(noise).find('\x1b') == std::string::npos);
    for (std::string text : {status.substr(0, any(status.size())), maps.substr(any(maps.size()))}) {
      for (std::size_t flips = any(20); flips > 0 && !text.empty(); --flips) {
        text[any(text.size())] = static_cast<char>(any(256));
      }
      parse_process_status(text);
      for (const MappedPart& part : parse_process_maps(text)) CHECK(part.start < part.end);
    }
  }
}

TEST_CASE("text of others is shown without what drives a terminal") {
  CHECK(shown("caf\xc3\xa9 \x1b[31m\n") == "caf\xc3\xa9 \\x1b[31m\\x0a");
  CHECK(shown("\xc2\x9b"
              "1m") == "\\x9b1m");
  CHECK(shown(std::string(1000, 'x')).size() == 203);
}

TEST_CASE("a running Python's functions are found where it has them itself") {
  const char* python = std::getenv("OPTRACE_TEST_PYTHON");
  const PrivateFolder folder;
  const auto torch = build_torch(folder.path(), "2.6.0+cu124");
  std::vector<std::string> pythons{"/usr/bin/python3"};  // Debian's has them in the executable.
  if (python != nullptr) pythons.emplace_back(python);
  for (const std::string& program : pythons) {
    INFO(program);
    const auto output = folder.path() / "addresses";
    std::filesystem::remove(output);
    const ChildProcess child(
        {.arguments = {program, "-c",
                       "import ctypes, os, sys, time\n"
                       "at = lambda f: ctypes.cast(f, ctypes.c_void_p).value\n"
                       "api = ctypes.pythonapi\n"
                       "with open(sys.argv[1] + '.new', 'w') as out:\n"
                       "    print(at(api.Py_AddPendingCall), at(api.PyRun_SimpleString),\n"
                       "          at(api.PyThread_start_new_thread), at(api.PyGILState_Ensure),\n"
                       "          at(api.PyGILState_Release), at(api.Py_IsInitialized),\n"
                       "          sys.version_info[1], file=out)\n"
                       "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
                       "time.sleep(1000)\n",
                       output.string()},
         .environment = {{"LD_PRELOAD", torch.string()}}});
    wait_until([&] { return std::filesystem::exists(output); });
    const AttachTarget target = inspect_attach_target(child.id());
    CHECK(fmt::format("{} {} {} {} {} {} {}\n", target.add_pending_call, target.run_simple_string,
                      target.start_thread, target.ensure_gil, target.release_gil,
                      target.is_initialized, target.python_minor) == read_bytes(output));
    CHECK(target.process == child.id());
    CHECK(target.process_inside == child.id());
    CHECK(target.root.empty());
    CHECK(target.executable == std::filesystem::canonical(program));
    CHECK(target.torch_folder == folder.path() / "torch");
    CHECK(target.add_pending_call > target.interpreter_bias);
    CHECK(std::filesystem::is_regular_file(target.interpreter));
  }
}

TEST_CASE("what isn't a process that could be attached to is refused for what it is") {
  CHECK_THAT(refusal(0), StartsWith("2: 0 is not a process ID"));
  CHECK_THAT(refusal(-5), StartsWith("2: -5 is not a process ID"));
  CHECK_THAT(refusal(0x7FFFFFFF), StartsWith("2: there is no process 2147483647"));
  CHECK_THAT(refusal(::getpid()), Contains("is optrace itself"));

  SECTION("a thread") {
    std::promise<void> end;
    std::thread waiting([&end] { end.get_future().wait(); });
    pid_t thread = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const pid_t id = std::stoi(task.path().filename().string());
      if (id != ::getpid()) thread = id;
    }
    const std::string found = refusal(thread);
    end.set_value();
    waiting.join();
    CHECK_THAT(found,
               StartsWith(fmt::format("2: {} is a thread of process {}", thread, ::getpid())));
  }
  SECTION("one that has ended") {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    wait_until([&] { return RunningProcess(child).status().ended(); });
    const std::string found = refusal(child);
    ::waitpid(child, nullptr, 0);
    CHECK_THAT(found, StartsWith("2: ") && Contains("a zombie"));
    CHECK_THAT(refusal(child), StartsWith("2: there is no process"));
  }
  SECTION("a thread of the kernel") {
    bool found = false;
    for (pid_t process = 1; process < 50 && !found; ++process) {
      if (!std::filesystem::exists(fmt::format("/proc/{}/status", process))) continue;
      const ProcessStatus status = RunningProcess(process).status();
      if (status.has_memory || status.ended()) continue;
      found = true;
      CHECK_THAT(refusal(process), StartsWith("2: ") && Contains("is a kernel thread"));
    }
    if (!found) WARN("cannot run here: no thread of the kernel is to be seen (a container)");
  }
  SECTION("one that is stopped") {
    const ChildProcess child = sleep_with({});
    child.send(SIGSTOP);
    wait_until([&] { return RunningProcess(child.id()).status().state == 'T'; });
    CHECK_THAT(refusal(child.id()), StartsWith("3: ") && Contains("is stopped") &&
                                        Contains(fmt::format("kill -CONT {}", child.id())));
    child.send(SIGCONT);
  }
  SECTION("one under a debugger") {
    const ChildProcess child = sleep_with({});
    REQUIRE(::ptrace(PTRACE_SEIZE, child.id(), nullptr, nullptr) == 0);
    const std::string found = refusal(child.id());
    const std::string afterwards = text_of(why_not_allowed(child.id(), EPERM));
    REQUIRE(::ptrace(PTRACE_INTERRUPT, child.id(), nullptr, nullptr) == 0);
    REQUIRE(::waitpid(child.id(), nullptr, 0) == child.id());
    REQUIRE(::ptrace(PTRACE_DETACH, child.id(), nullptr, nullptr) == 0);
    CHECK_THAT(found, StartsWith("3: ") &&
                          Contains(fmt::format("is already traced by process {} (", ::getpid())));
    CHECK(found == afterwards);
  }
}

TEST_CASE("programs that aren't CPython are named") {
  const PrivateFolder folder;
  const std::string sleep = read_bytes("/bin/sleep");
  CHECK_THAT(refusal(sleep_with({}).id()),
             StartsWith("2: ") && Contains("(sleep) is not Python") && Contains("/sleep"));
  const auto named = [&](const char* name) {
    const auto program = executable_copy(folder.path() / name, sleep);
    return refusal(sleep_with({}, program.string()).id());
  };
  CHECK_THAT(named("python3.11"), Contains("is a static Python that does not export the C API"));
  CHECK_THAT(named("pypy3"), Contains("is PyPy, not CPython"));
  CHECK_THAT(named("qemu-aarch64"), Contains("another processor, run by qemu-aarch64"));

  const auto program = executable_copy(folder.path() / "gone\x1b[31m\nname", sleep);
  const ChildProcess child = sleep_with({}, program.string());
  std::filesystem::remove(program);
  CHECK_THAT(refusal(child.id()), Contains("is not Python") &&
                                      Contains("gone\\x1b[31m\\x0aname.") && !Contains("\x1b") &&
                                      !Contains("\n"));
}

TEST_CASE("a program for another processor is refused") {
  const PrivateFolder folder;
  const auto program = executable_copy(folder.path() / "python3", program_of_32_bits(EM_386));
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(program.c_str(), program.c_str(), nullptr);
    ::_exit(errno == ENOEXEC ? 100 : 1);
  }
  int status = 0;
  pid_t ended = 0;
  std::string found;
  wait_until([&] {
    ended = ::waitpid(child, &status, WNOHANG);
    const RunningProcess::Text link = RunningProcess(child).read_link("exe");
    return ended != 0 || link.text == program.string();
  });
  if (ended == 0) {
    found = refusal(child);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK_THAT(found, StartsWith("2: ") && Contains("is built for 32-bit x86"));
  } else {
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 100);
    WARN("cannot run here: this kernel starts no 32-bit programs");
  }
}

TEST_CASE("versions of Python that can't be attached to are named") {
  const PrivateFolder folder;
  const auto torch = build_torch(folder.path(), "2.6.0");
  const auto refused = [&](const std::string& version, const std::string& more = "") {
    return refusal(sleep_with({build_python(folder.path(), version, more), torch}).id());
  };
  CHECK(refused("0x030E00F0") == "nothing against it");
  CHECK_THAT(refused("0x030F00F0"), StartsWith("2: ") && Contains("runs CPython 3.15 ("));
  CHECK_THAT(refused("0x040100F0"), Contains("runs CPython 4.1 ("));
  CHECK_THAT(refused("0x030D00F0", "extern \"C\" void _Py_DecRefShared() {}\n"),
             Contains("free-threaded build of CPython 3.13"));

  // Before 3.11 there is no Py_Version.
  const auto older = [&](const std::string& functions) {
    const auto library =
        build_library(folder.path(), "python3.77.cpp",
                      "extern \"C\" int Py_AddPendingCall() { return 1; }\n"
                      "extern \"C\" int PyRun_SimpleString() { return 2; }\n"
                      "extern \"C\" int PyThread_start_new_thread() { return 3; }\n"
                      "extern \"C\" int PyGILState_Ensure() { return 4; }\n"
                      "extern \"C\" int PyGILState_Release() { return 5; }\n"
                      "extern \"C\" int Py_IsInitialized() { return 6; }\n" +
                          functions);
    return refusal(sleep_with({library, torch}).id());
  };
  CHECK_THAT(older(""), Contains("runs CPython older than 3.8"));
  CHECK_THAT(older("extern \"C\" void PyConfig_InitPythonConfig() {}\n"),
             Contains("runs CPython 3.8"));
  CHECK(older("extern \"C\" void PyObject_CallNoArgs() {}\n") == "nothing against it");
}

TEST_CASE("a Python that was replaced or changed since it started is refused") {
  const PrivateFolder folder;
  const auto torch = build_torch(folder.path(), "2.6.0");
  const auto python = build_python(folder.path(), "0x030B00F0");
  const std::string bytes = read_bytes(python);
  const ChildProcess child = sleep_with({python, torch});
  CHECK(refusal(child.id()) == "nothing against it");

  // As in an upgrade: another file gets the name.
  std::filesystem::remove(python);
  CHECK_THAT(refusal(child.id()), StartsWith("2: ") && Contains("removed or replaced"));
  write_bytes(python, bytes);
  CHECK_THAT(refusal(child.id()), Contains("removed or replaced"));

  const auto changed = build_python(folder.path(), "0x030B00F0");
  const ChildProcess patched = sleep_with({changed, torch});
  const AttachTarget target = inspect_attach_target(patched.id());
  REQUIRE(::ptrace(PTRACE_SEIZE, patched.id(), nullptr, nullptr) == 0);
  REQUIRE(::ptrace(PTRACE_INTERRUPT, patched.id(), nullptr, nullptr) == 0);
  REQUIRE(::waitpid(patched.id(), nullptr, 0) == patched.id());
  const std::uint64_t breakpoint = 0xCCCCCCCCCCCCCCCC;
  REQUIRE(::ptrace(PTRACE_POKETEXT, patched.id(), target.add_pending_call, breakpoint) == 0);
  REQUIRE(::ptrace(PTRACE_DETACH, patched.id(), nullptr, nullptr) == 0);
  CHECK_THAT(refusal(patched.id()), Contains("another tool has patched its code"));
}

TEST_CASE("torch is asked for, and its version read whatever is in the file's place") {
  const PrivateFolder folder;
  const auto python = build_python(folder.path(), "0x030B00F0");
  CHECK_THAT(refusal(sleep_with({python}).id()), Contains("a Python (3.11) that has not imported"));

  const auto torch = build_torch(folder.path(), "");
  const auto version = folder.path() / "torch" / "version.py";
  const ChildProcess child = sleep_with({python, torch});
  CHECK_THAT(refusal(child.id()), StartsWith("2: ") && Contains("No such file"));

  const auto says = [&](const std::string& text) {
    write_bytes(version, text);
    return refusal(child.id());
  };
  CHECK(says("__version__ = '2.6.0+cu124'\n") == "nothing against it");
  CHECK(says("x = 1\n__version__: str = \"3.0.1\"") == "nothing against it");
  CHECK_THAT(says("__version__ = '2.5.1'\n"), Contains("has loaded torch 2.5.1"));
  CHECK_THAT(says("__version__ = '1.13.1'\n"), Contains("has loaded torch 1.13.1"));
  CHECK_THAT(says("__version__ = 'two'\n"), Contains("contains \"two\""));
  CHECK_THAT(says("__version__ = '2'\n"), Contains("contains \"2\""));
  CHECK_THAT(says("__version__ = '2.99999999999999999999'"), Contains("can't be read"));
  CHECK_THAT(says("__version__ = '\x1b[2J\n"), Contains("\\x1b[2J") && !Contains("\x1b"));
  CHECK_THAT(says("__version__ = get()\n"), Contains("contains \"\""));
  CHECK_THAT(says(std::string("\0\xff", 2)), Contains("can't be read"));
  CHECK_THAT(says(""), Contains("can't be read"));

  std::filesystem::resize_file(version, std::uintmax_t{5} << 30);
  CHECK_THAT(refusal(child.id()), Contains("File too large"));
  std::filesystem::remove(version);
  REQUIRE(::mkfifo(version.c_str(), 0600) == 0);
  CHECK_THAT(refusal(child.id()), Contains("Invalid argument"));
  std::filesystem::remove(version);
  std::filesystem::create_symlink("/dev/zero", version);
  CHECK_THAT(refusal(child.id()), Contains("Invalid argument"));
  std::filesystem::remove(version);
  std::filesystem::create_symlink("version.py", version);
  CHECK_THAT(refusal(child.id()), Contains("symbolic links"));
  std::filesystem::remove(version);
  std::filesystem::create_symlink("/proc/self/fd/0", version);
  CHECK_THAT(refusal(child.id()), Contains("can't be read"));
  std::filesystem::remove(version);
  std::filesystem::create_directory(version);
  CHECK_THAT(refusal(child.id()), Contains("Invalid argument"));
  std::filesystem::remove(version);

  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    std::string text = "__version__ = '2.6.0'\n";
    for (char& byte : text) {
      if (random() % 8 == 0) byte = static_cast<char>(random());
    }
    const std::string found = says(text);
    CHECK((found == "nothing against it" || found.starts_with("2: ")));
  }
  std::filesystem::remove(torch);
  CHECK_THAT(refusal(child.id()),
             Contains("the torch loaded by") && Contains("removed or replaced"));
}

TEST_CASE("files of a process in another mount namespace are read there") {
  if (not_root()) return;
  const PrivateFolder folder;
  const auto python = build_python(folder.path(), "0x030B00F0");
  build_torch(folder.path(), "2.6.0");
  const auto hidden = folder.path() / "hidden";
  std::filesystem::create_directory(hidden);
  const std::string script =
      "mount -t tmpfs none \"$1\" && cp -r \"$2\" \"$3\" \"$1\" && "
      "LD_PRELOAD=\"$1/libpython3.99.so:$1/torch/lib/libtorch_python.so\" exec sleep 1000";
  const ChildProcess child(
      {.arguments = {"unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script,
                     "sh", hidden.string(), python.string(), (folder.path() / "torch").string()}});
  const std::string children = fmt::format("task/{}/children", child.id());
  pid_t inside = 0;
  wait_until([&] {
    const std::string text = RunningProcess(child.id()).read(children.c_str(), 4096).text;
    inside = std::atoi(text.c_str());
    return inside > 0 && has_mapped(inside, (hidden / "torch" / "lib").string());
  });
  const AttachTarget target = inspect_attach_target(inside);
  CHECK(target.process == inside);
  CHECK(target.process_inside == 1);
  CHECK(target.root == fmt::format("/proc/{}/root", inside));
  CHECK(target.torch_folder == hidden / "torch");
  CHECK(target.interpreter == hidden / "libpython3.99.so");
  CHECK_FALSE(std::filesystem::exists(target.interpreter));
}

TEST_CASE("who may not trace is told why") {
  if (not_root()) return;
  const auto as_nobody = [] { return become(kNobody, kNobody); };
  const auto nobody = [] {
    // A started program is dumpable, but a process that changes its user is not.
    if (!become(kNobody, kNobody) || ::prctl(PR_SET_DUMPABLE, 1) != 0) ::_exit(1);
  };
  SECTION("another user's") {
    const ChildProcess child = sleep_with({});
    CHECK_THAT(asked_by(as_nobody, [&] { return refusal(child.id()); }),
               StartsWith("3: ") &&
                   Contains("belongs to another user: it runs as root (user ID 0)") &&
                   Contains("and optrace runs as nobody (user ID 65534)") && Contains("sudo"));
  }
  SECTION("our user's is not refused") {
    const Forked target(nobody);
    CHECK_THAT(asked_by(as_nobody, [&] { return refusal(target.id()); }),
               Contains("is not Python"));
  }
  SECTION("set-user-ID") {
    const Forked target([] {
      if (::setgroups(0, nullptr) != 0 || ::setresgid(kNobody, kNobody, kNobody) != 0 ||
          ::setresuid(kNobody, 0, 0) != 0) {
        ::_exit(1);
      }
    });
    CHECK_THAT(asked_by(as_nobody, [&] { return refusal(target.id()); }),
               StartsWith("3: ") && Contains("runs set-user-ID as user root"));
  }
  SECTION("other groups") {
    const Forked target([] {
      if (!become(kNobody, 12345) || ::prctl(PR_SET_DUMPABLE, 1) != 0) ::_exit(1);
    });
    CHECK_THAT(asked_by(as_nobody, [&] { return refusal(target.id()); }),
               StartsWith("3: ") && Contains("other groups: real 12345"));
  }
  SECTION("not dumpable") {
    const Forked target([] {
      if (!become(kNobody, kNobody) || ::prctl(PR_SET_DUMPABLE, 0) != 0) ::_exit(1);
    });
    CHECK_THAT(asked_by(as_nobody, [&] { return refusal(target.id()); }),
               StartsWith("3: ") && Contains("not dumpable"));
  }
  SECTION("more capabilities than ours") {
    const ChildProcess child = sleep_with({});
    CHECK_THAT(asked_by(drop_capabilities, [&] { return refusal(child.id()); }),
               StartsWith("3: ") && Contains("has capabilities that optrace lacks"));
  }
  SECTION("another user namespace") {
    const ChildProcess child = sleep_with({});
    const std::string found =
        asked_by([] { return ::unshare(CLONE_NEWUSER) == 0; }, [&] { return refusal(child.id()); });
    if (found.empty()) {
      WARN("cannot run here: making a user namespace is not allowed");
    } else {
      CHECK_THAT(found, StartsWith("3: ") && Contains("is in another user namespace"));
    }
  }
  SECTION("a process that has ended meanwhile") {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    CHECK_THAT(text_of(why_not_allowed(child, EPERM)), StartsWith("3: ") && Contains("has ended"));
  }
}

TEST_CASE("a seccomp filter of ours that forbids ptrace is found") {
  const ChildProcess child = sleep_with({});
  CHECK_THAT(asked_by(forbid_ptrace, [&] { return text_of(why_not_allowed(child.id(), EPERM)); }),
             StartsWith("3: ") && Contains("under a seccomp filter that forbids ptrace"));
}

TEST_CASE("each reason for a refusal is told from the others") {
  TracingRights rights = good_rights();
  const auto says = [&rights](int error = EPERM) {
    return text_of(explain_refusal(rights, error));
  };
  CHECK_THAT(says(), Contains("optrace may not trace process 200 (python), because it lacks "
                              "CAP_SYS_PTRACE"));
  rights.yama = 0;
  CHECK_THAT(says(), !Contains("Yama"));
  rights.yama = 1;
  CHECK_THAT(says(), Contains("ptrace_scope is 1") && Contains("PR_SET_PTRACER"));
  rights.yama = 2;
  CHECK_THAT(says(), Contains("ptrace_scope is 2") && !Contains("PR_SET_PTRACER"));
  rights.yama = 3;
  CHECK_THAT(says(), Contains("ptrace_scope is 3") && Contains("next boot"));
  rights.ours.effective = std::uint64_t{1} << CAP_SYS_PTRACE;
  CHECK_THAT(says(), Contains("ptrace_scope is 3"));
  rights.yama = 1;  // The capability overrides it.
  CHECK_THAT(says(), Contains("although it has CAP_SYS_PTRACE") && !Contains("Yama"));
  rights.target.seccomp = 2;
  CHECK_THAT(says(), Contains("The target has a seccomp filter of its own"));
  rights.security_label = "docker-default (enforce)";
  CHECK_THAT(says(), Contains("docker-default (enforce)") && Contains("apparmor=unconfined"));
  rights.same_user_namespace = false;
  CHECK_THAT(says(),
             Contains("another user namespace, where the CAP_SYS_PTRACE of optrace has no effect"));

  rights = good_rights();
  rights.in_container = true;
  CHECK_THAT(says(),
             Contains("container without CAP_SYS_PTRACE") && Contains("--cap-add=SYS_PTRACE"));
  rights.yama = 1;
  CHECK_THAT(says(), Contains("Yama") && Contains("--cap-add=SYS_PTRACE"));
  rights.target.users = {0, 0, 0, 0};
  rights.target_user_name = "root";
  CHECK_THAT(says(), Contains("belongs to another user") && Contains("--cap-add=SYS_PTRACE"));
  rights.target.tracer = 300;
  rights.tracer_command = "gdb\x1b";
  CHECK_THAT(says(), Contains("by process 300 (gdb\\x1b)"));
  CHECK_THAT(says(ESRCH), Contains("has ended in the meantime"));
}
