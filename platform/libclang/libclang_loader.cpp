#include "platform/libclang/libclang_loader.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include <dlfcn.h>
#include <fmt/core.h>

#include "platform/error.h"
#include "platform/files/file_trust.h"
#include "platform/files/installation.h"

// The functions of libclang that optrace calls. A program that calls another one doesn't link.
#define FUNCTIONS_OF_LIBCLANG(FUNCTION)          \
  FUNCTION(clang_CXXMethod_isDefaulted)          \
  FUNCTION(clang_CXXMethod_isStatic)             \
  FUNCTION(clang_Cursor_getArgument)             \
  FUNCTION(clang_Cursor_getMangling)             \
  FUNCTION(clang_Cursor_getNumArguments)         \
  FUNCTION(clang_Cursor_isNull)                  \
  FUNCTION(clang_Type_getSizeOf)                 \
  FUNCTION(clang_Type_getTemplateArgumentAsType) \
  FUNCTION(clang_createIndex)                    \
  FUNCTION(clang_defaultSaveOptions)             \
  FUNCTION(clang_disposeDiagnostic)              \
  FUNCTION(clang_disposeIndex)                   \
  FUNCTION(clang_disposeString)                  \
  FUNCTION(clang_disposeTranslationUnit)         \
  FUNCTION(clang_equalCursors)                   \
  FUNCTION(clang_formatDiagnostic)               \
  FUNCTION(clang_getArgType)                     \
  FUNCTION(clang_getCString)                     \
  FUNCTION(clang_getCanonicalType)               \
  FUNCTION(clang_getClangVersion)                \
  FUNCTION(clang_getCursorExtent)                \
  FUNCTION(clang_getCursorKind)                  \
  FUNCTION(clang_getCursorLinkage)               \
  FUNCTION(clang_getCursorLocation)              \
  FUNCTION(clang_getCursorReferenced)            \
  FUNCTION(clang_getCursorSemanticParent)        \
  FUNCTION(clang_getCursorSpelling)              \
  FUNCTION(clang_getCursorType)                  \
  FUNCTION(clang_getDiagnostic)                  \
  FUNCTION(clang_getDiagnosticSeverity)          \
  FUNCTION(clang_getEnumConstantDeclValue)       \
  FUNCTION(clang_getEnumDeclIntegerType)         \
  FUNCTION(clang_getExpansionLocation)           \
  FUNCTION(clang_getFileContents)                \
  FUNCTION(clang_getFileLocation)                \
  FUNCTION(clang_getFileName)                    \
  FUNCTION(clang_getInclusions)                  \
  FUNCTION(clang_getNullCursor)                  \
  FUNCTION(clang_getNumArgTypes)                 \
  FUNCTION(clang_getNumDiagnostics)              \
  FUNCTION(clang_getNumOverloadedDecls)          \
  FUNCTION(clang_getOverloadedDecl)              \
  FUNCTION(clang_getPointeeType)                 \
  FUNCTION(clang_getRangeEnd)                    \
  FUNCTION(clang_getRangeStart)                  \
  FUNCTION(clang_getResultType)                  \
  FUNCTION(clang_getSpecializedCursorTemplate)   \
  FUNCTION(clang_getTemplateCursorKind)          \
  FUNCTION(clang_getTranslationUnitCursor)       \
  FUNCTION(clang_getTranslationUnitSpelling)     \
  FUNCTION(clang_getTypeDeclaration)             \
  FUNCTION(clang_getTypeSpelling)                \
  FUNCTION(clang_isAttribute)                    \
  FUNCTION(clang_isConstQualifiedType)           \
  FUNCTION(clang_isCursorDefinition)             \
  FUNCTION(clang_isDeclaration)                  \
  FUNCTION(clang_isFunctionTypeVariadic)         \
  FUNCTION(clang_isInvalid)                      \
  FUNCTION(clang_parseTranslationUnit2)          \
  FUNCTION(clang_saveTranslationUnit)            \
  FUNCTION(clang_visitChildren)

// Each function is a jump to the address in its slot, which works for any parameters.
asm(R"(
  .macro function_of_libclang name
  .pushsection .text
  .globl \name
  .hidden \name
  .type \name, @function
\name:
  jmp *optrace_slot_of_\name(%rip)
  .size \name, . - \name
  .popsection
  .endm
)");
#define DEFINE_FUNCTION(NAME)                         \
  extern "C" {                                        \
  __attribute__((used)) void* optrace_slot_of_##NAME; \
  }                                                   \
  asm("function_of_libclang " #NAME);
FUNCTIONS_OF_LIBCLANG(DEFINE_FUNCTION)

namespace optrace {
namespace {

using std::filesystem::path;

struct Slot {
  const char* name;
  void** address;
};

#define SLOT(NAME) Slot{#NAME, &optrace_slot_of_##NAME},
constexpr Slot kSlots[] = {FUNCTIONS_OF_LIBCLANG(SLOT)};

std::string remedy() {
  // python/optrace/_command.py sets this variable.
  const char* const own = std::getenv("OPTRACE_OWN_PYTHON");
  return fmt::format(
      "Install it in the Python environment of optrace: {} -m pip install libclang. Or set "
      "OPTRACE_LIBCLANG to the path of another libclang.so, version 18 or later.",
      own == nullptr ? "python" : own);
}

/// A loaded libclang. It is never unloaded.
struct Libclang {
  void* handle;
  path file;
};

std::optional<Libclang> loaded(const path& file) {
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return std::nullopt;
  return Libclang{handle, file};
}

/// The library of PyPI's package `libclang`, beside the package `optrace`.
path file_of_package() {
  return installation_folder().parent_path() / "clang/native/libclang.so";
}

Libclang find_libclang() {
  if (const char* const asked = std::getenv("OPTRACE_LIBCLANG");
      asked != nullptr && *asked != '\0') {
    if (auto found = loaded(asked)) return *found;
    throw Error(
        ExitStatus::failed,
        fmt::format("the libclang that OPTRACE_LIBCLANG names can't be loaded: {}", ::dlerror()),
        "Give the path of a libclang.so, or unset the variable.");
  }
  std::error_code ignored;
  for (const path& file : {file_of_package(), path(OPTRACE_BUILT_WITH_LIBCLANG)}) {
    if (!std::filesystem::exists(file, ignored)) continue;
    // On another machine, any user may be able to make the path that it had where this was built.
    if (file != file_of_package() && !distrust_of(file).empty()) continue;
    if (auto found = loaded(file)) return *found;
    throw Error(ExitStatus::failed, fmt::format("libclang can't be loaded: {}", ::dlerror()),
                remedy());
  }
  if (auto found = loaded("libclang.so")) return *found;
  throw Error(ExitStatus::failed, "reading C++ needs libclang, which is not installed", remedy());
}

/// Returns true if clang finds its builtin headers itself, from its own path: DIR/libclang.so has
/// them in DIR/../lib/clang/VERSION/include. Debian's has them there.
bool has_builtin_headers(const path& file) {
  std::error_code error;
  const path versions = file.parent_path().parent_path() / "lib/clang";
  for (std::filesystem::directory_iterator at(versions, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (std::filesystem::exists(at->path() / "include/stddef.h", ignored)) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> load_libclang() {
  const Libclang libclang = find_libclang();
  for (const Slot& slot : kSlots) {
    *slot.address = ::dlsym(libclang.handle, slot.name);
    if (*slot.address == nullptr) {
      throw Error(ExitStatus::failed,
                  fmt::format("{} is not libclang 18 or later: it has no function {}",
                              libclang.file.string(), slot.name),
                  remedy());
    }
  }
  if (has_builtin_headers(libclang.file)) return {};
  return {"-resource-dir", (data_folder() / "clang").string()};
}

}  // namespace optrace
