#include "target/op_recorder/libraries/blas_calls.h"

#include <cctype>
#include <cstddef>
#include <cstdint>

#include "target/op_recorder/libraries/library_calls.h"
#include "target/recorder/agent_functions.h"
#include "target/recorder/json_fingerprint.h"

namespace optrace_ops {
namespace {

// How a function takes an argument. Fortran passes every argument by address. The C interface
// (cblas_) passes values; its batched functions pass arrays with one element per group.
enum class Passed : std::uint8_t {
  unsaid,       // Not part of a record, for example an address of data.
  letter,       // Fortran: 'N', 'T', 'C', 'U', 'L', 'V', ...
  integer,      // Fortran.
  scalar,       // Fortran: a value of the function's data type.
  workspace,    // Fortran: an integer; -1 queries the workspace size only.
  order,        // C: row-major or column-major order.
  operation,    // C: transposition of a matrix.
  value,        // C: an integer.
  operations,   // C: one transposition per group.
  values,       // C: one integer per group.
  group_count,  // C: the number of groups.
  group_sizes,  // C: the number of products in each group.
};

struct Argument {
  const char* name;
  Passed passed;
};

constexpr Argument kNone = {"", Passed::unsaid};

constexpr Argument letter(const char* name) {
  return {name, Passed::letter};
}
constexpr Argument integer(const char* name) {
  return {name, Passed::integer};
}
constexpr Argument kAlpha = {"alpha", Passed::scalar};
constexpr Argument kBeta = {"beta", Passed::scalar};
constexpr Argument kWorkspace = {"", Passed::workspace};

constexpr Argument kGemm[] = {letter("transa"),
                              letter("transb"),
                              integer("m"),
                              integer("n"),
                              integer("k"),
                              kAlpha,
                              kNone,
                              integer("lda"),
                              kNone,
                              integer("ldb"),
                              kBeta,
                              kNone,
                              integer("ldc")};
constexpr Argument kGemv[] = {letter("trans"), integer("m"),   integer("n"),   kAlpha,
                              kNone,           integer("lda"), kNone,          integer("incx"),
                              kBeta,           kNone,          integer("incy")};
constexpr Argument kTrsm[] = {letter("side"), letter("uplo"), letter("transa"), letter("diag"),
                              integer("m"),   integer("n"),   kAlpha,           kNone,
                              integer("lda"), kNone,          integer("ldb")};
constexpr Argument kCblasGemm[] = {{"order", Passed::order},
                                   {"transa", Passed::operation},
                                   {"transb", Passed::operation},
                                   {"m", Passed::value},
                                   {"n", Passed::value},
                                   {"k", Passed::value},
                                   kNone,
                                   {"lda", Passed::value},
                                   kNone,
                                   {"ldb", Passed::value},
                                   kNone,
                                   {"ldc", Passed::value}};
constexpr Argument kCblasGemmBatch[] = {{"order", Passed::order},
                                        {"transa", Passed::operations},
                                        {"transb", Passed::operations},
                                        {"m", Passed::values},
                                        {"n", Passed::values},
                                        {"k", Passed::values},
                                        kNone,
                                        kNone,
                                        {"lda", Passed::values},
                                        kNone,
                                        {"ldb", Passed::values},
                                        kNone,
                                        kNone,
                                        {"ldc", Passed::values},
                                        {"groups", Passed::group_count},
                                        {"batch", Passed::group_sizes}};
constexpr Argument kGetrf[] = {integer("m"), integer("n"), kNone, integer("lda")};
constexpr Argument kGetrs[] = {letter("trans"), integer("n"), integer("nrhs"), kNone,
                               integer("lda"),  kNone,        kNone,           integer("ldb")};
constexpr Argument kGeqrf[] = {integer("m"), integer("n"), kNone,     integer("lda"),
                               kNone,        kNone,        kWorkspace};
constexpr Argument kOrgqr[] = {integer("m"),   integer("n"), integer("k"), kNone,
                               integer("lda"), kNone,        kNone,        kWorkspace};
constexpr Argument kOrmqr[] = {letter("side"), letter("trans"), integer("m"),   integer("n"),
                               integer("k"),   kNone,           integer("lda"), kNone,
                               kNone,          integer("ldc"),  kNone,          kWorkspace};
constexpr Argument kPotrf[] = {letter("uplo"), integer("n"), kNone, integer("lda")};
constexpr Argument kPotrs[] = {letter("uplo"), integer("n"), integer("nrhs"), kNone,
                               integer("lda"), kNone,        integer("ldb")};
constexpr Argument kSyevd[] = {letter("jobz"), letter("uplo"), integer("n"), kNone,
                               integer("lda"), kNone,          kNone,        kWorkspace};
constexpr Argument kGesdd[] = {letter("jobz"), integer("m"),    integer("n"), kNone,
                               integer("lda"), kNone,           kNone,        integer("ldu"),
                               kNone,          integer("ldvt"), kNone,        kWorkspace};
constexpr Argument kGeevReal[] = {
    letter("jobvl"), letter("jobvr"), integer("n"),    kNone, integer("lda"), kNone, kNone, kNone,
    integer("ldvl"), kNone,           integer("ldvr"), kNone, kWorkspace};
constexpr Argument kGeevComplex[] = {
    letter("jobvl"), letter("jobvr"), integer("n"), kNone,           integer("lda"), kNone,
    kNone,           integer("ldvl"), kNone,        integer("ldvr"), kNone,          kWorkspace};
constexpr Argument kGels[] = {letter("trans"), integer("m"),   integer("n"), integer("nrhs"),
                              kNone,           integer("lda"), kNone,        integer("ldb"),
                              kNone,           kWorkspace};
constexpr Argument kGelsd[] = {integer("m"),   integer("n"), integer("nrhs"), kNone,
                               integer("lda"), kNone,        integer("ldb"),  kNone,
                               kNone,          kNone,        kNone,           kWorkspace};
constexpr Argument kSytrf[] = {letter("uplo"), integer("n"), kNone,     integer("lda"),
                               kNone,          kNone,        kWorkspace};
constexpr Argument kSytrs[] = {letter("uplo"), integer("n"), integer("nrhs"), kNone,
                               integer("lda"), kNone,        kNone,           integer("ldb")};

struct Function {
  const char* symbol;
  const char* type;  // Data type of the matrices, in PyTorch's spelling.
  const char* library;
  const Argument* arguments;
  std::size_t count;
};

constexpr const char* kFloat = "float32";
constexpr const char* kDouble = "float64";
constexpr const char* kComplex = "complex64";
constexpr const char* kDoubleComplex = "complex128";

template <std::size_t Count>
constexpr Function blas(const char* symbol, const char* type, const Argument (&arguments)[Count]) {
  return {symbol, type, "BLAS", arguments, Count};
}
template <std::size_t Count>
constexpr Function lapack(const char* symbol, const char* type,
                          const Argument (&arguments)[Count]) {
  return {symbol, type, "LAPACK", arguments, Count};
}

// The decoded functions. Those that this PyTorch does not import are ignored.
#define REAL(kind, name, arguments) \
  kind("s" name, kFloat, arguments), kind("d" name, kDouble, arguments)
#define COMPLEX(kind, name, arguments) \
  kind("c" name, kComplex, arguments), kind("z" name, kDoubleComplex, arguments)
#define EACH_TYPE(kind, name, arguments) REAL(kind, name, arguments), COMPLEX(kind, name, arguments)
constexpr Function kFunctions[] = {
    EACH_TYPE(blas, "gemm_", kGemm),
    EACH_TYPE(blas, "gemv_", kGemv),
    EACH_TYPE(blas, "trsm_", kTrsm),
    blas("cblas_gemm_bf16bf16f32", "bfloat16", kCblasGemm),
    blas("cblas_gemm_f16f16f32", "float16", kCblasGemm),
    blas("cblas_sgemm_compute", kFloat, kCblasGemm),
    blas("cblas_sgemm_batch", kFloat, kCblasGemmBatch),
    blas("cblas_dgemm_batch", kDouble, kCblasGemmBatch),
    blas("cblas_cgemm_batch", kComplex, kCblasGemmBatch),
    blas("cblas_zgemm_batch", kDoubleComplex, kCblasGemmBatch),
    EACH_TYPE(lapack, "getrf_", kGetrf),
    EACH_TYPE(lapack, "getrs_", kGetrs),
    EACH_TYPE(lapack, "geqrf_", kGeqrf),
    REAL(lapack, "orgqr_", kOrgqr),
    COMPLEX(lapack, "ungqr_", kOrgqr),
    REAL(lapack, "ormqr_", kOrmqr),
    COMPLEX(lapack, "unmqr_", kOrmqr),
    EACH_TYPE(lapack, "potrf_", kPotrf),
    EACH_TYPE(lapack, "potri_", kPotrf),
    EACH_TYPE(lapack, "potrs_", kPotrs),
    REAL(lapack, "syevd_", kSyevd),
    COMPLEX(lapack, "heevd_", kSyevd),
    EACH_TYPE(lapack, "gesdd_", kGesdd),
    REAL(lapack, "geev_", kGeevReal),
    COMPLEX(lapack, "geev_", kGeevComplex),
    EACH_TYPE(lapack, "gels_", kGels),
    EACH_TYPE(lapack, "gelsd_", kGelsd),
    EACH_TYPE(lapack, "gelsy_", kGelsd),
    EACH_TYPE(lapack, "gelss_", kGelsd),
    EACH_TYPE(lapack, "sytrf_", kSytrf),
    COMPLEX(lapack, "hetrf_", kSytrf),
    EACH_TYPE(lapack, "sytrs_", kSytrs),
    COMPLEX(lapack, "hetrs_", kSytrs),
};
#undef EACH_TYPE
#undef COMPLEX
#undef REAL
constexpr std::size_t kCount = sizeof kFunctions / sizeof *kFunctions;

// Number of entries in the assembly below.
constexpr std::size_t kMaxFunctions = 128;
static_assert(kCount <= kMaxFunctions, "raise the number of entries below, too");

// Size of an entry, which loads its number and jumps to the shared code.
constexpr std::size_t kEntrySize = 16;

void* originals[kMaxFunctions];

// The arguments of one call, as saved by the assembly below.
struct Call {
  const std::uint64_t* registers;
  const std::uint64_t* stack;

  std::uint64_t word(std::size_t i) const {
    constexpr std::size_t kRegisters = 6;
    return i < kRegisters ? registers[i] : stack[i - kRegisters];
  }
  template <typename T>
  const T* address(std::size_t i) const {
    return reinterpret_cast<const T*>(word(i));  // NOLINT(performance-no-int-to-ptr)
  }
  int value(std::size_t i) const { return static_cast<int>(word(i)); }
};

// Returns the Fortran letter for a value of CBLAS_LAYOUT, CBLAS_TRANSPOSE or an MKL extension of
// them.
const char* operation_letter(int value) {
  switch (value) {
    case 111:
      return "n";
    case 112:
      return "t";
    case 113:
      return "c";
    case 151:
      return "packed";
    default:
      return "unknown";
  }
}

class Record {
 public:
  Record(const Function& function, const Call& call) : function_(function), call_(call) {}

  bool only_asks_for_a_size() const {
    for (std::size_t i = 0; i < function_.count; ++i)
      if (function_.arguments[i].passed == Passed::workspace && *call_.address<int>(i) == -1)
        return true;
    return false;
  }

  void add_to(Fingerprint& fingerprint) const {
    fingerprint.add(reinterpret_cast<std::uintptr_t>(&function_));
    JsonFingerprint out(fingerprint);
    write_arguments(out);
  }

  void write(JsonText& json) const {
    json.key("call");
    json.string(function_.symbol);
    json.key("kind");
    json.string("library");
    json.key("library");
    json.string(function_.library);
    json.key("type");
    json.string(function_.type);
    write_arguments(json);
  }

 private:
  static constexpr int kMaxGroups = 16;

  int shown_groups() const {
    for (std::size_t i = 0; i < function_.count; ++i)
      if (function_.arguments[i].passed == Passed::group_count)
        return call_.value(i) < kMaxGroups ? call_.value(i) : kMaxGroups;
    return 0;
  }

  double part_of_scalar(std::size_t argument, std::size_t part) const {
    const bool single = function_.type == kFloat || function_.type == kComplex;
    return single ? static_cast<double>(call_.address<float>(argument)[part])
                  : call_.address<double>(argument)[part];
  }

  template <typename Out>
  void write_scalar(Out& out, const char* name, std::size_t argument) const {
    const bool is_complex = function_.type == kComplex || function_.type == kDoubleComplex;
    const double real = part_of_scalar(argument, 0);
    const double imaginary = is_complex ? part_of_scalar(argument, 1) : 0;
    out.key(name);
    if (imaginary == 0) {
      out.number(real);
      return;
    }
    out.open('[');
    out.number(real);
    out.number(imaginary);
    out.close(']');
  }

  template <typename Out>
  void write_arguments(Out& out) const {
    for (std::size_t i = 0; i < function_.count; ++i) write(out, i);
  }

  template <typename Out>
  void write(Out& out, std::size_t i) const {
    const Argument& argument = function_.arguments[i];
    switch (argument.passed) {
      case Passed::letter:
        out.key(argument.name);
        out.string(std::string(1, static_cast<char>(std::tolower(
                                      static_cast<unsigned char>(*call_.address<char>(i))))));
        break;
      case Passed::integer:
        out.key(argument.name);
        out.number(static_cast<std::int64_t>(*call_.address<int>(i)));
        break;
      case Passed::scalar:
        write_scalar(out, argument.name, i);
        break;
      case Passed::order:
        out.key(argument.name);
        out.string(call_.value(i) == 101 ? "row-major" : "column-major");
        break;
      case Passed::operation:
        out.key(argument.name);
        out.string(operation_letter(call_.value(i)));
        break;
      case Passed::value:
        out.key(argument.name);
        out.number(static_cast<std::int64_t>(call_.value(i)));
        break;
      case Passed::operations:
        write_groups(out, argument.name, [&](int group) {
          out.string(operation_letter(call_.address<int>(i)[group]));
        });
        break;
      case Passed::values:
      case Passed::group_sizes:
        write_groups(out, argument.name, [&](int group) {
          out.number(static_cast<std::int64_t>(call_.address<int>(i)[group]));
        });
        break;
      case Passed::group_count:
        if (call_.value(i) == 1) break;
        out.key(argument.name);
        out.number(static_cast<std::int64_t>(call_.value(i)));
        break;
      case Passed::unsaid:
      case Passed::workspace:
        break;
    }
  }

  // Writes a single value if there is one group, as in PyTorch's calls, otherwise a list.
  template <typename Out, typename Write>
  void write_groups(Out& out, const char* name, Write write_one) const {
    const int groups = shown_groups();
    out.key(name);
    if (groups == 1) {
      write_one(0);
      return;
    }
    out.open('[');
    for (int group = 0; group < groups; ++group) write_one(group);
    out.close(']');
  }

  const Function& function_;
  const Call& call_;
};

}  // namespace

// Called by the entries' shared code with the saved arguments. Returns the address of the original
// function.
extern "C" __attribute__((visibility("hidden"), used)) void* optrace_ops_blas_call(
    std::uint32_t number, const std::uint64_t* registers, const std::uint64_t* stack) {
  const Call call{registers, stack};
  const Record record(kFunctions[number], call);
  if (!record.only_asks_for_a_size()) {
    Fingerprint fingerprint;
    record.add_to(fingerprint);
    record_library_call(fingerprint, reinterpret_cast<std::uint64_t>(stack) - sizeof(std::uint64_t),
                        [&](JsonText& json) { record.write(json); });
  }
  return __atomic_load_n(&originals[number], __ATOMIC_ACQUIRE);
}

extern "C" __attribute__((visibility("hidden"))) const char optrace_ops_blas_entries[];

// The original function is reached by a tail call with its caller's registers and stack, so the
// recorded stack is the same as without the redirection. The code preserves the six integer
// argument registers and the first two vector registers (alpha and beta of the C interface).
asm(R"(
  .pushsection .text
  .p2align 4
  .type optrace_ops_blas_shared, @function
optrace_ops_blas_shared:
  .cfi_startproc
  pushq %r9
  .cfi_adjust_cfa_offset 8
  pushq %r8
  .cfi_adjust_cfa_offset 8
  pushq %rcx
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  subq $24, %rsp
  .cfi_adjust_cfa_offset 24
  movsd %xmm0, (%rsp)
  movsd %xmm1, 8(%rsp)
  movl %eax, %edi
  leaq 24(%rsp), %rsi
  leaq 80(%rsp), %rdx
  call optrace_ops_blas_call
  movq %rax, %r11
  movsd (%rsp), %xmm0
  movsd 8(%rsp), %xmm1
  addq $24, %rsp
  .cfi_adjust_cfa_offset -24
  popq %rdi
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rcx
  .cfi_adjust_cfa_offset -8
  popq %r8
  .cfi_adjust_cfa_offset -8
  popq %r9
  .cfi_adjust_cfa_offset -8
  jmp *%r11
  .cfi_endproc
  .size optrace_ops_blas_shared, . - optrace_ops_blas_shared

  .hidden optrace_ops_blas_entries
  .globl optrace_ops_blas_entries
  .type optrace_ops_blas_entries, @function
  .p2align 4
optrace_ops_blas_entries:
  .cfi_startproc
  .set optrace_ops_blas_number, 0
  .rept 128
  movl $optrace_ops_blas_number, %eax
  jmp optrace_ops_blas_shared
  .p2align 4
  .set optrace_ops_blas_number, optrace_ops_blas_number + 1
  .endr
  .cfi_endproc
  .size optrace_ops_blas_entries, . - optrace_ops_blas_entries
  .popsection
)");

namespace {

struct Redirections {
  Redirections() {
    for (std::size_t i = 0; i < kCount; ++i)
      all[i] = {kFunctions[i].symbol, const_cast<char*>(optrace_ops_blas_entries) + kEntrySize * i,
                &originals[i]};
  }
  optrace_agent_redirection all[kCount];
};

const Redirections& redirections() {
  static const Redirections made;
  return made;
}

}  // namespace

void watch_blas_calls(const void* inside_torch) {
  redirect(inside_torch, redirections().all, kCount);
}

void leave_blas_calls() {
  restore(redirections().all, kCount);
}

}  // namespace optrace_ops
