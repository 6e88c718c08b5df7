#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace optrace {

/// A routine of BLAS or LAPACK. Its functions' names begin with the letter of a type, s, d, c or z,
/// and end with `_`: `sgemm_`.
struct FortranRoutine {
  std::string_view name;
  bool blas;    ///< Of BLAS, else of LAPACK. The form of the names does not distinguish the two.
  bool probed;  ///< ATen/native/CPUBlas.cpp, BatchLinearAlgebraKernel.cpp or mkl/ call it.
};

/// The routines of BLAS (netlib.org/blas, and Intel's additions), and those of LAPACK that ATen
/// calls.
inline constexpr auto kFortranRoutines = std::to_array<FortranRoutine>({
    {"asum", true, false},       {"axpy", true, true},   {"copy", true, true},
    {"dot", true, true},         {"dotc", true, true},   {"dotu", true, true},
    {"gbmv", true, false},       {"gemm", true, true},   {"gemm3m", true, false},
    {"gemm_batch", true, false}, {"gemmt", true, false}, {"gemv", true, true},
    {"gemv_batch", true, false}, {"ger", true, false},   {"gerc", true, false},
    {"geru", true, false},       {"hemm", true, false},  {"hemv", true, false},
    {"her", true, false},        {"her2", true, false},  {"her2k", true, false},
    {"herk", true, false},       {"nrm2", true, false},  {"rot", true, false},
    {"rotg", true, false},       {"sbmv", true, false},  {"scal", true, true},
    {"spmv", true, false},       {"swap", true, false},  {"symm", true, false},
    {"symv", true, false},       {"syr", true, false},   {"syr2", true, false},
    {"syr2k", true, false},      {"syrk", true, false},  {"trmm", true, false},
    {"trmv", true, false},       {"trsm", true, true},   {"trsv", true, false},
    {"trsm_batch", true, false}, {"getrf", false, true}, {"getrs", false, true},
    {"getri", false, true},      {"geqrf", false, true}, {"orgqr", false, true},
    {"ungqr", false, true},      {"ormqr", false, true}, {"unmqr", false, true},
    {"potrf", false, true},      {"potri", false, true}, {"potrs", false, true},
    {"syevd", false, true},      {"heevd", false, true}, {"geev", false, true},
    {"gesdd", false, true},      {"gels", false, true},  {"gelsd", false, true},
    {"gelss", false, true},      {"gelsy", false, true}, {"sytrf", false, true},
    {"hetrf", false, true},      {"sytrs", false, true}, {"hetrs", false, true},
});

/// Routines of LAPACK that return the size of their workspace instead if `lwork` is -1, and of
/// which the calls that compute are recorded (target/op_recorder/libraries/blas_calls.cpp).
inline constexpr auto kRoutinesWithQuery = std::to_array<std::string_view>(
    {"geqrf", "orgqr", "ungqr", "ormqr", "unmqr", "syevd", "heevd", "geev", "gesdd", "gels",
     "gelsd", "gelss", "gelsy", "sytrf", "hetrf"});

/// Returns true for functions of these: `sgeqrf_`, MKL's `mkl_lapack__sgeqrf_`.
constexpr bool has_workspace_query(std::string_view function) {
  if (const std::size_t scope = function.rfind("__"); scope != std::string_view::npos)
    function.remove_prefix(scope + 2);
  return function.size() > 2 && function.ends_with('_') &&
         std::ranges::find(kRoutinesWithQuery, function.substr(1, function.size() - 2)) !=
             kRoutinesWithQuery.end();
}

/// Returns the routine with this name, without type and `_`; null if it is not in the table.
constexpr const FortranRoutine* fortran_routine(std::string_view name) {
  const auto* const found = std::ranges::find(kFortranRoutines, name, &FortranRoutine::name);
  return found == kFortranRoutines.end() ? nullptr : found;
}

}  // namespace optrace
