#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <clang-c/Index.h>

#include "indexer/store/index_writer.h"

namespace optrace {

/// Names files as the index does: relative to the source tree, generated ones as in a build tree.
/// Gives nothing for a file that is part of neither.
using PathMap = std::function<std::optional<std::string>(std::string_view absolute_path)>;

/// Walks the syntax trees of translation units and gives what it finds to callbacks:
///
/// Function definitions with their call sites. Functions are keyed by canonical symbol; templates
/// and members of class templates by template_key, and so are calls of their instances. A lambda is
/// a function of its own, by lambda_key, and its calls are those of the function around it as well.
/// Classes by the symbol of their type information, `_ZTIN2at8TensorBaseE`; class templates by
/// names alone.
///
/// Registrations: what the blocks of TORCH_LIBRARY, TORCH_LIBRARY_FRAGMENT and TORCH_LIBRARY_IMPL
/// say to `torch::Library` (torch/library.h), and the kernels of DispatchStubs
/// (aten/src/ATen/native/DispatchStub.h).
class UnitExtractor {
 public:
  using FunctionSink = std::function<void(IndexContents::Function)>;
  using RegistrationSink = std::function<void(IndexContents::Registration)>;

  UnitExtractor(PathMap paths, FunctionSink function_sink, RegistrationSink registration_sink)
      : paths_(std::move(paths)),
        function_sink_(std::move(function_sink)),
        registration_sink_(std::move(registration_sink)) {}

  void extract(CXTranslationUnit unit);

 private:
  struct File {
    bool is_indexed = false;
    std::string name;  // As the index has it.
    bool is_header = false;
  };
  struct Place {
    const File* file = nullptr;
    std::uint32_t line = 0;
  };

  // The block of a TORCH_LIBRARY macro.
  struct Library {
    std::string name;  // Its namespace.
    std::string key;   // Empty in TORCH_LIBRARY and TORCH_LIBRARY_FRAGMENT.
  };

  // A function that the walk is in.
  struct Open {
    IndexContents::Function function;
    std::string own_symbol;  // Of an explicit specialization; else empty.
    bool is_lambda = false;
    bool is_template = false;
    std::unordered_map<std::string, int> lambdas;  // How many of each signature were met.
  };

  // A call whose parts the walk is in.
  struct OpenCall {
    CXCursor callee;      // What stands before its parenthesis.
    CXCursor referenced;  // What it calls.
  };

  // What the arguments of a registration say.
  struct Arguments {
    UnitExtractor* extractor;
    std::string function;
    std::string key;  // A dispatch key, where one is named.
    bool is_fallthrough = false;
  };

  struct Callee {
    std::string key;  // Empty: not to be told.
    bool is_device_kernel = false;
  };

  static CXChildVisitResult visit_declaration(CXCursor cursor, CXCursor parent, CXClientData self);
  static CXChildVisitResult visit_body(CXCursor cursor, CXCursor parent, CXClientData self);
  void take_type(CXCursor cursor, DefinitionKind kind);
  void take_variable(CXCursor cursor);
  void take_stub_kernel(CXCursor variable, const Place& place, const std::string& stub,
                        const std::vector<std::string>& keys);
  std::vector<std::string> capabilities_of(CXCursor variable, const std::string& capability) const;
  void take_function(CXCursor cursor);
  void take_lambda(CXCursor cursor, CXCursor parent);
  // Walks the body of a function and gives it to the sink.
  void walk(CXCursor cursor, const Place& place, Open open);
  void take_call(CXCursor call, const OpenCall& open);
  void take_reference(CXCursor expression);
  void take_kernel_reference(CXCursor expression, CXCursor overloads);
  void take_library_call(const Library& library, CXCursor call, const std::string& member,
                         CXSourceLocation location);
  static CXChildVisitResult visit_argument(CXCursor cursor, CXCursor parent, CXClientData found);
  static std::optional<Library> library_of(std::string_view function);
  void add_call(const std::string& callee, CXSourceLocation location,
                CallKind kind = CallKind::call);
  void add_call(const Callee& callee, CXSourceLocation location);
  Place place_of(CXSourceLocation location);
  const Callee& callee_of(CXCursor referenced);
  // Of a lambda's class, or of a variable that holds one; empty for anything else.
  std::string lambda_key_of(CXCursor declaration) const;
  // `params.use_cudnn` where params is a ConvParams<T>; nothing where nothing tells the class.
  const Callee* dependent_member(CXCursor member);

  PathMap paths_;
  FunctionSink function_sink_;
  RegistrationSink registration_sink_;
  CXTranslationUnit unit_ = nullptr;
  std::string main_file_;
  // CXFile is good for one unit only; its name is not.
  std::unordered_map<void*, File> files_;
  std::unordered_map<const void*, Callee> callees_;           // By declaration.
  std::unordered_map<const void*, std::string> lambda_keys_;  // By class or variable.
  std::unordered_set<std::uint64_t> seen_;  // Hashes of functions, calls included.
  std::vector<Open> open_;                  // Outermost first.
  std::vector<OpenCall> open_calls_;        // The same.
  std::optional<Library> library_;          // Whose block the walk is in.
};

}  // namespace optrace
