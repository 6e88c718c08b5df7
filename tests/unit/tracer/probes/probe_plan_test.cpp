#include "tracer/probes/probe_plan.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <set>

#include <catch2/catch.hpp>
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include "platform/elf/branch_targets.h"
#include "platform/files/private_folder.h"
#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/functions/function_roles.h"
#include "pytorch/functions/probed_functions.h"
#include "target/interface/generated_library.h"
#include "tests/unit/small_library.h"
#include "tracer/probes/probe_selection.h"

using namespace optrace;
using namespace optrace::test;

namespace {

// Every function takes and returns a number, and is named after the kind of its first instructions.
// Each .balign leaves the same padding as compilers do.
constexpr std::string_view kEntries = R"(
        .intel_syntax noprefix
        .text
        .macro entry name
        .balign 16
        .type \name, @function
\name:  .cfi_startproc
        .endm
        .macro done name
        .cfi_endproc
        .size \name, .-\name
        .endm

        entry plain
        push rbx
        mov rbx, rdi
        lea rax, [rbx+3]
        pop rbx
        ret
        done plain

        entry endbr
        endbr64
        lea rax, [rdi+4]
        ret
        done endbr

        entry rip_relative
        mov rax, [rip+number]
        add rax, rdi
        ret
        done rip_relative

        entry red_zone
        mov [rsp-8], edi
        mov rax, [rip+number]
        add eax, [rsp-8]
        ret
        done red_zone

        entry address
        lea r9, [rip+number]
        mov rax, [r9]
        ret
        done address

        entry vector
        cvtsi2sd xmm0, rdi
        addsd xmm0, [rip+half]
        addsd xmm0, xmm0
        cvttsd2si rax, xmm0
        ret
        done vector

        entry uses_r11
        mov r11, [rip+number]
        lea rax, [r11+rdi]
        ret
        done uses_r11

        entry pushes
        push [rip+number]
        pop rax
        ret
        done pushes

        entry rip_relative_immediate
        cmp qword ptr [rip+number], 1000
        mov rax, rdi
        jne 1f
        add rax, 7
1:      ret
        done rip_relative_immediate

        entry short_conditional
        test rdi, rdi
        js 1f
        lea rax, [rdi*2]
        ret
1:      mov rax, rdi
        neg rax
        ret
        done short_conditional

        entry near_conditional
        test edi, 1
        jz far_away
        mov rax, 5
        ret
        done near_conditional

        entry short_jump
        jmp 1f
        .byte 0x0f, 0x0b, 0x0f, 0x0b
1:      lea rax, [rdi+11]
        ret
        done short_jump

        entry near_jump
        jmp far_away
        done near_jump

        entry loops
        mov ecx, edi
        jrcxz 1f
        mov eax, 1
2:      add eax, 3
        loop 2b
        ret
1:      mov eax, 17
        ret
        done loops

        entry first_is_jrcxz
        jrcxz 1f
1:      mov rax, rdi
        add rax, 2
        ret
        done first_is_jrcxz

        entry calls
        call add_one
        add rax, 100
        ret
        done calls

        entry calls_after_push
        push rdi
        call add_one
        pop rdi
        add rax, rdi
        ret
        done calls_after_push

        entry calls_through_memory
        call [rip+pointer]
        add rax, 200
        ret
        done calls_through_memory

        entry calls_register
        push rbx
        lea rbx, [rip+add_one]
        call rbx
        pop rbx
        ret
        done calls_register

        entry returns_early
        mov eax, edi
        ret
        done returns_early

        entry ends_in_the_middle
        test edi, edi
        jns 1f
        ret
1:      mov eax, 12
        ret
        done ends_in_the_middle

        # Loops to its second instruction: nothing but int3 fits.
        entry lands_behind_entry
        xor eax, eax
1:      inc eax
        dec edi
        jg 1b
        ret
        done lands_behind_entry

        # Another function's far branch does so.
        entry lands_from_afar
        xor eax, eax
        add eax, edi
        ret
        done lands_from_afar

        # What looks like a branch to the entry is the end of a constant.
        entry looks_like_landing
        push rbx
        mov rbx, rdi
        mov eax, 0xf7eb0000
        shr eax, 16
        pop rbx
        ret
        done looks_like_landing

        entry add_one
        lea rax, [rdi+1]
        ret
        done add_one

        .balign 16
        .skip 200
        entry far_away
        lea rax, [rdi+21]
        ret
        .skip 200, 0x90
        jmp lands_from_afar+2
        done far_away

        # No room at all: the next function follows.
        .type tight, @function
tight:  .cfi_startproc
        nop
        ret
        done tight
        .type tight_neighbour, @function
tight_neighbour: .cfi_startproc
        mov eax, edi
        ret
        done tight_neighbour

        # Returns behind its second byte: a jump there would be in the way.
        entry returns_into_entry
        call rax
        ret
        done returns_into_entry

        entry undecodable
        .byte 0x06, 0x06, 0x06, 0x06, 0x06
        done undecodable

        entry calls_through_stack
        call [rsp+8]
        ret
        done calls_through_stack

        .data
number: .quad 1000
half: .double 0.5
pointer: .quad add_one
        .section .note.GNU-stack,"",@progbits
)";

struct Loaded {
  explicit Loaded(const std::filesystem::path& path) : handle(::dlopen(path.c_str(), RTLD_NOW)) {
    INFO(::dlerror());
    REQUIRE(handle != nullptr);
    link_map* map = nullptr;
    REQUIRE(::dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0);
    bias = map->l_addr;
  }
  ~Loaded() { ::dlclose(handle); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  void* handle;
  std::uint64_t bias = 0;
};

/// Executable memory below an address.
class MemoryBelow {
 public:
  explicit MemoryBelow(std::uint64_t address) {
    constexpr std::uint64_t kStep = 1 << 20;
    for (std::uint64_t at = (address & ~0xFFFULL) - kStep; memory_ == nullptr; at -= kStep) {
      REQUIRE(address - at < std::uint64_t{2} << 30);
      // NOLINTNEXTLINE(performance-no-int-to-ptr): mmap takes its hint as a pointer.
      void* got = ::mmap(reinterpret_cast<void*>(at), kSize, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (got != MAP_FAILED) memory_ = static_cast<char*>(got);
    }
  }
  ~MemoryBelow() { ::munmap(memory_, kSize); }
  MemoryBelow(const MemoryBelow&) = delete;
  MemoryBelow& operator=(const MemoryBelow&) = delete;

  /// Writes a probe's code with its fixups, as the agent does. Returns the address of the code;
  /// none if it reaches for what is more than 2 GiB away.
  std::optional<std::uint64_t> place(const ProbePlan& plan, const plan::Probe& probe,
                                     std::uint64_t bias) {
    constexpr std::string_view kJump("\xFF\x25\0\0\0\0", 6);
    char* slot = memory_ + used_;
    const std::string_view code = plan.code(probe);
    used_ += (code.size() + kJump.size() + 8 + 15) & ~std::size_t{15};
    REQUIRE(used_ <= kSize);
    std::memcpy(slot, code.data(), code.size());
    for (const plan::Fixup& fixup : plan.fixups(probe)) {
      const std::uint64_t target = fixup.target + bias;
      if (fixup.kind == plan::FixupKind::absolute64) {
        REQUIRE(fixup.offset + 8U <= code.size());
        std::memcpy(slot + fixup.offset, &target, 8);
      } else {
        REQUIRE(fixup.offset + 4U <= code.size());
        const auto distance = static_cast<std::int64_t>(
            target - (reinterpret_cast<std::uint64_t>(slot) + fixup.offset + 4) - fixup.addend);
        const auto value = static_cast<std::int32_t>(distance);
        if (value == distance) {
          std::memcpy(slot + fixup.offset, &value, 4);
        } else if (fixup.offset + 4U == code.size() && code[fixup.offset - 1U] == '\xE9') {
          std::memcpy(slot + fixup.offset - 1, kJump.data(), kJump.size());
          std::memcpy(slot + fixup.offset - 1 + kJump.size(), &target, sizeof target);
        } else {
          return std::nullopt;
        }
      }
    }
    return reinterpret_cast<std::uint64_t>(slot);
  }

 private:
  static constexpr std::size_t kSize = 1 << 16;
  char* memory_ = nullptr;
  std::size_t used_ = 0;
};

ProbePlan written(const ProbePlanner& planner, const ModuleSymbols& module,
                  const std::filesystem::path& path) {
  write_bytes(path, planner.bytes(module.path()));
  auto plan = ProbePlan::open(path);
  REQUIRE(plan);
  return std::move(*plan);
}

}  // namespace

TEST_CASE("displaced instructions do elsewhere what they did in place") {
  const PrivateFolder folder;
  const ModuleSymbols module(build_library(folder.path(), "entries.s", kEntries));
  const BranchTargets branch_targets = BranchTargets::search(module);
  const Loaded loaded(module.path());
  MemoryBelow near(loaded.bias);
  MemoryBelow far(loaded.bias - (std::uint64_t{8} << 30));
  // Their instructions need r11 or the stack, as does the address of an operand that is far away.
  const std::set<std::string_view> in_reach_only = {"uses_r11", "pushes", "calls_through_memory"};

  const std::pair<const char*, plan::Patch> entries[] = {
      {"plain", plan::Patch::jump},
      {"endbr", plan::Patch::jump},
      {"rip_relative", plan::Patch::jump},
      {"red_zone", plan::Patch::jump},
      {"address", plan::Patch::jump},
      {"vector", plan::Patch::jump},
      {"uses_r11", plan::Patch::jump},
      {"pushes", plan::Patch::jump},
      {"rip_relative_immediate", plan::Patch::jump},
      {"short_conditional", plan::Patch::jump},
      {"near_conditional", plan::Patch::jump},
      {"short_jump", plan::Patch::jump},
      {"near_jump", plan::Patch::jump},
      {"loops", plan::Patch::jump},
      {"first_is_jrcxz", plan::Patch::trap_only},
      {"calls", plan::Patch::jump},
      {"calls_after_push", plan::Patch::jump},
      {"calls_through_memory", plan::Patch::jump},
      {"calls_register", plan::Patch::jump},
      {"returns_early", plan::Patch::jump},
      {"ends_in_the_middle", plan::Patch::jump},
      {"lands_behind_entry", plan::Patch::trap_only},
      {"lands_from_afar", plan::Patch::trap_only},
      {"looks_like_landing", plan::Patch::jump},
      {"add_one", plan::Patch::jump},
      {"far_away", plan::Patch::jump},
      {"tight_neighbour", plan::Patch::jump},
  };
  for (const auto& [name, patch] : entries) {
    INFO(name);
    const std::uint64_t address = address_of(module, name);
    ProbePlanner planner(module, branch_targets);
    REQUIRE(planner.add(address));
    const ProbePlan plan = written(planner, module, folder.path() / "one.plan");
    const plan::Probe& probe = plan.probes().at(0);
    CHECK(probe.address == address);
    CHECK(probe.patch == patch);
    CHECK((probe.patch == plan::Patch::trap_only || probe.displaced >= kJumpSize));
    const auto slot = near.place(plan, probe, loaded.bias);
    REQUIRE(slot);
    const auto far_slot = far.place(plan, probe, loaded.bias);
    CHECK(far_slot.has_value() != in_reach_only.contains(name));
    const auto call = [](std::uint64_t code, long argument) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      return reinterpret_cast<long (*)(long)>(code)(argument);
    };
    for (const long argument : {0L, 1L, 2L, 7L, 40L}) {
      const long result = call(loaded.bias + address, argument);
      CHECK(call(*slot, argument) == result);
      if (far_slot) CHECK(call(*far_slot, argument) == result);
    }
    if (patch == plan::Patch::jump) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      CHECK(std::memcmp(reinterpret_cast<const void*>(loaded.bias + address), probe.original,
                        probe.original_size) == 0);
    }
  }
}

TEST_CASE("what can't be patched is int3 only or left alone") {
  const PrivateFolder folder;
  const ModuleSymbols module(build_library(folder.path(), "entries.s", kEntries));
  const BranchTargets branch_targets = BranchTargets::search(module);
  ProbePlanner planner(module, branch_targets);
  CHECK(planner.add(address_of(module, "tight")));
  CHECK(planner.add(address_of(module, "returns_into_entry")));
  CHECK_FALSE(planner.add(address_of(module, "undecodable")));
  CHECK_FALSE(planner.add(address_of(module, "calls_through_stack")));
  CHECK_FALSE(planner.add(address_of(module, "plain") + 1));
  CHECK_FALSE(planner.add(0));
  const ProbePlan plan = written(planner, module, folder.path() / "few.plan");
  REQUIRE(plan.probes().size() == 2);
  for (const plan::Probe& probe : plan.probes()) {
    CHECK(probe.patch == plan::Patch::trap_only);
    CHECK(probe.displaced < kJumpSize);
  }
}

TEST_CASE("a resolver is never probed") {
  const PrivateFolder folder;
  const ModuleSymbols module(build_library(folder.path(), "resolver.cpp", R"(
extern "C" {
static int slow(int n) { return n; }
static int (*resolve())(int) { return slow; }
int chosen(int) __attribute__((ifunc("resolve")));
})"));
  const BranchTargets branch_targets = BranchTargets::search(module);
  std::vector<std::string> names;
  module.for_each_name([&](std::uint64_t, std::string_view name) { names.emplace_back(name); });
  CHECK(std::ranges::find(names, "chosen") == names.end());
}

TEST_CASE("what was found about branch_targets is kept whole or not at all") {
  const PrivateFolder folder;
  const ModuleSymbols module(build_library(folder.path(), "entries.s", kEntries));
  const std::string bytes = BranchTargets::search(module).to_bytes();
  const auto kept = BranchTargets::from_bytes(std::as_bytes(std::span(bytes)));
  REQUIRE(kept);
  CHECK(kept->any_in(module, address_of(module, "lands_from_afar")));
  CHECK_FALSE(kept->any_in(module, address_of(module, "plain")));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string spoiled = bytes;
    spoiled[i] = static_cast<char>(spoiled[i] ^ 0x10);
    CHECK_FALSE(BranchTargets::from_bytes(std::as_bytes(std::span(spoiled))));
    CHECK_FALSE(BranchTargets::from_bytes(std::as_bytes(std::span(bytes).first(i))));
  }
}

TEST_CASE("a plan comes back as it was made, and a spoiled one not at all") {
  const PrivateFolder folder;
  const ModuleSymbols module(build_library(folder.path(), "entries.s", kEntries));
  const BranchTargets branch_targets = BranchTargets::search(module);
  ProbePlanner planner(module, branch_targets);
  REQUIRE(planner.add(address_of(module, "plain")));
  REQUIRE(planner.add(address_of(module, "calls")));
  REQUIRE(planner.add(address_of(module, "plain")));
  const ProbePlan plan = written(planner, module, folder.path() / "a.plan");
  CHECK(plan.probes().size() == 2);
  CHECK(plan.build_id() == module.build_id());
  CHECK(plan.module_path() == module.path().string());

  const std::string whole = read_bytes(plan.path());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string spoiled = whole;
    spoiled[i] = static_cast<char>(spoiled[i] ^ 0x04);
    write_bytes(folder.path() / "spoiled.plan", spoiled);
    const auto read = ProbePlan::open(folder.path() / "spoiled.plan");
    // The header's build-id is not part of the checksum; it is compared with the module's.
    CHECK((!read || read->build_id() != module.build_id() || i < sizeof(plan::Header)));
    write_bytes(folder.path() / "spoiled.plan", whole.substr(0, i));
    CHECK_FALSE(ProbePlan::open(folder.path() / "spoiled.plan"));
  }
  CHECK_FALSE(ProbePlan::open(folder.path() / "absent.plan"));
}

TEST_CASE("only what hands an op on to the next dispatch key has its arguments recorded") {
  const auto libraries = torch_libraries();
  if (libraries.empty()) return;
  const ModuleSymbols module(libraries / "libtorch_cpu.so");
  const BranchTargets branch_targets;
  ProbePlanner planner(module, branch_targets);
  const auto add = [&](std::string_view symbol) {
    REQUIRE(planner.add(address_of(module, symbol)));
  };
  add("_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE");
  add("_ZN2at4_ops10add_Tensor10redispatchEN3c1014DispatchKeySetERKNS_6TensorES6_RKNS2_6ScalarE");
  const PrivateFolder folder;
  const ProbePlan plan = written(planner, module, folder.path() / "cpu.plan");
  REQUIRE(plan.probes().size() == 2);
  CHECK(plan.probes()[0].kind == plan::ProbeKind::entry);
  CHECK(plan.probes()[1].kind == plan::ProbeKind::entry_with_arguments);
  CHECK_FALSE(takes_dispatch_keys("_ZN2at10redispatch3addEN3c1014DispatchKeySetE"));
  CHECK_FALSE(takes_dispatch_keys(""));
  CHECK(has_telling_arguments("GOMP_parallel"));
  CHECK(has_telling_arguments("_ZN2at8internal15invoke_parallelEv._omp_fn.0"));
  CHECK_FALSE(has_telling_arguments("GOMP_parallel_end"));
  CHECK_FALSE(has_telling_arguments("_ZN2at6native3addEv"));
}

TEST_CASE("nearly every function of the wheel that is worth it can have a jump") {
  const auto libraries = torch_libraries();
  if (libraries.empty()) return;
  const ModuleSymbols module(libraries / "libtorch_python.so");
  const BranchTargets branch_targets = BranchTargets::search(module);
  ProbePlanner planner(module, branch_targets);
  const auto selected = select_functions(module);
  REQUIRE(selected.size() > 1500);
  for (const NamedAddress& function : selected) CHECK(planner.add(function.address));
  const PrivateFolder folder;
  const ProbePlan plan = written(planner, module, folder.path() / "python.plan");
  const auto traps = std::ranges::count(plan.probes(), plan::Patch::trap_only, &plan::Probe::patch);
  CHECK(traps < 10);
}

TEST_CASE("libraries that Inductor generates are known by their names", "[probe_selection]") {
  const std::string hash = "c6mho4hgyzlpjcuwmqkv22454pfggedozm2pqbaspxbaqhlgqsoo";
  CHECK(optrace::is_generated_library("/caches/6m/" + hash + ".main.so"));
  CHECK(optrace::is_generated_library("6m/" + hash + ".so"));
  CHECK(optrace::is_generated_library("/tmp/x/data/aotinductor/model/" + hash + ".wrapper.so"));
  for (const std::string& path :
       {std::string(), "/" + hash + ".so", "/caches/6n/" + hash + ".so", "/caches/6m/" + hash,
        "/caches/6m/x" + hash, "/caches/6m/" + hash + "a.so",
        "/caches/6m/" + hash.substr(1) + ".so", std::string("/usr/lib/libc.so.6")})
    CHECK_FALSE(optrace::is_generated_library(path));
}

TEST_CASE("the interpreter has no probes, and neither has what leads nowhere",
          "[probe_selection]") {
  for (const char* symbol :
       {"_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault.cold",
        "_ZN2at8autocast18set_autocast_dtypeEN3c1010DeviceTypeENS1_10ScalarTypeE",
        "_ZN2at6native24update_result_type_stateERKNS_6TensorERKNS0_15ResultTypeStateE",
        "_ZN2at9functorch15setFuncTorchTLSERKSt10shared_ptrIKNS0_16FuncTorchTLSBaseEE",
        "_ZN2at6native11result_typeERKNS0_15ResultTypeStateE", "GOMP_parallel_end"})
    CHECK_FALSE(is_probed(symbol));
  CHECK(is_probed("_ZN2at6native11result_typeERKNS_6TensorES3_"));
  CHECK(is_probed("_ZN2at6native22use_mkldnn_bf16_matmulERKNS_6TensorES3_S3_"));
  CHECK(is_probed("_ZN2at8autocast11cached_castEN3c1010ScalarTypeERKNS_6TensorENS1_10DeviceTypeE"));
  CHECK(is_evaluation_loop("_PyEval_EvalFrameDefault.cold"));
  CHECK_FALSE(is_evaluation_loop("_PyEval_EvalFrame"));
}
