#include "indexer/builders/wheel_maker.h"

#include <future>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "indexer/catalogue/catalogue_json.h"
#include "indexer/catalogue/op_catalogue.h"
#include "indexer/catalogue/python_catalogue.h"
#include "indexer/sources/progress_reporter.h"
#include "indexer/sources/work_folder.h"
#include "indexer/store/index_catalogue.h"
#include "indexer/store/index_writer.h"
#include "indexer/wheel/function_names.h"
#include "indexer/wheel/generated_code.h"
#include "indexer/wheel/line_mapping.h"
#include "indexer/wheel/wheel_code.h"
#include "indexer/wheel/wheel_headers.h"
#include "platform/error.h"
#include "platform/files/installation.h"
#include "platform/files/output_file.h"
#include "platform/files/whole_file.h"
#include "platform/process/interrupt.h"
#include "pytorch/source/source_files.h"

namespace optrace {
namespace {

/// A folder with nothing but a link to a torch's torchgen, so that a Python of another environment
/// can import it.
std::filesystem::path torchgen_alone(const PythonInstallation& python, const WorkFolder& work) {
  const std::filesystem::path folder = work.path() / "torchgen-only";
  const std::filesystem::path torchgen = python.torch_folder.parent_path() / "torchgen";
  std::error_code error;
  if (!std::filesystem::is_regular_file(torchgen / "packaged/ATen/native/native_functions.yaml",
                                        error))
    throw Error(ExitStatus::usage,
                fmt::format("{} has no torchgen/packaged, which PyTorch's wheels contain",
                            torchgen.parent_path().string()),
                "Give a source tree instead: `optrace source add DIR`.");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::filesystem::create_directory_symlink(torchgen, folder / "torchgen");
  return folder;
}

/// What programs in Python tell about a torch.
class WheelCatalogue {
 public:
  WheelCatalogue(const PythonInstallation& python, const WorkFolder& work)
      : python_(python),
        work_(work),
        runner_(python_with_yaml(python)),
        torchgen_(torchgen_alone(python, work)) {}

  std::filesystem::path generated() const { return work_.path() / "generated"; }

  /// Runs the programs whose inputs have changed, side by side. Throws Error(failed).
  void make() const {
    FileHashes hashes;
    const std::filesystem::path programs = data_folder() / "catalogue";
    const auto key = [&](const char* program) {
      return Digest()
          .add(hashes.of((programs / program).string()))
          .add(hashes.of((python_.torch_folder / "version.py").string()))
          .value();
    };
    auto generating = std::async(std::launch::async, [this, made = key("wheel_code.py")] {
      work_.make_once("generated", made, [&](const std::filesystem::path& folder) {
        run_python(runner_,
                   {(data_folder() / "catalogue/wheel_code.py").string(), folder.string(),
                    python_.torch_folder.parent_path().string(), torchgen_.string()},
                   "/", "generating code with the wheel's torchgen");
      });
    });
    auto naming = std::async(std::launch::async, [this, made = key("python_names.py")] {
      work_.make_once("python_names", made, [&](const std::filesystem::path& file) {
        write_python_names(python_.python, file);
      });
    });
    work_.make_once("ops", key("ops.py"), [&](const std::filesystem::path& file) {
      write_ops(torchgen_, runner_, file);
    });
    generating.get();
    naming.get();
  }

  std::vector<IndexContents::Op> ops() const {
    return parse_ops(read_file(work_.path() / "ops").value_or(""));
  }
  std::vector<IndexContents::PythonName> python_names() const {
    return parse_python_names(read_file(work_.path() / "python_names").value_or(""));
  }

 private:
  const PythonInstallation& python_;
  const WorkFolder& work_;
  std::filesystem::path runner_;    ///< A Python with PyYAML.
  std::filesystem::path torchgen_;  ///< The folder that contains only torchgen.
};

bool is_generated(const std::string& file) {
  // torch/csrc/lazy/generated is left out: the wheel lacks its templates.
  return file.starts_with("build/") || file.starts_with(kGeneratedAutograd) ||
         file.starts_with(kGeneratedShims);
}

/// Returns the hand-written headers that have functions in the index `base` or anchors in a wheel.
std::set<std::string> known_headers(const std::optional<Index>& base, const WheelCode& code) {
  std::set<std::string> headers;
  const auto add = [&](std::string_view file) {
    if (is_header(file)) headers.emplace(file);
  };
  for (const IndexedAnchor& anchor : code.places()) add(anchor.file);
  if (base)
    base->each_function([&](const Definition& definition, const std::vector<CallSite>&) {
      add(definition.location.file);
    });
  std::erase_if(headers, is_generated);
  return headers;
}

/// Gives builtins that no generated table binds the function that the base's table binds, if the
/// wheel still has it.
void bind_from_base(IndexContents& contents, const Index& base) {
  std::map<std::string, const IndexContents::Function*> functions;
  for (const IndexContents::Function& function : contents.functions)
    functions.emplace(function.symbol, &function);
  for (IndexContents::PythonName& name : contents.python_names) {
    if (name.kind != static_cast<char>(PythonKind::builtin) || !name.target.empty()) continue;
    const auto before = base.find_python_name(name.name);
    if (!before || before->kind != PythonKind::builtin) continue;
    const auto function = functions.find(std::string(before->target));
    if (function == functions.end()) continue;
    name.target = function->first;
    name.file = function->second->file;
    name.line = function->second->line;
  }
}

void append(IndexContents& contents, IndexContents added) {
  std::ranges::move(added.functions, std::back_inserter(contents.functions));
  std::ranges::move(added.registrations, std::back_inserter(contents.registrations));
}

/// Leaves out the registrations of ops that this version does not have.
void drop_removed_ops(IndexContents& contents) {
  std::set<std::string> known;
  for (const IndexContents::Op& op : contents.ops) known.insert(op.name);
  std::erase_if(contents.registrations, [&](const IndexContents::Registration& registration) {
    return registration.kind != RegistrationKind::stub && registration.name.starts_with("aten::") &&
           !known.contains(registration.name);
  });
}

}  // namespace

MadeIndex make_wheel_index(const MakeWheelIndexOptions& options) {
  const InterruptGuard guard;
  const PythonInstallation python = examine_python(options.python);
  const std::filesystem::path path =
      options.output.empty() ? own_index_path(python.torch_version) : options.output;
  {
    const OutputFile trial(path);
  }
  ProgressReporter progress;
  const WorkFolder work(python.torch_folder, python.torch_folder);
  const WheelCatalogue catalogue(python, work);
  progress.begin(
      fmt::format("Indexing the wheel of torch {}: running its torchgen, reading its "
                  "headers and the code of its libraries",
                  python.torch_version));
  const WheelCode code = WheelCode::read(python.torch_folder);
  auto cataloguing = std::async(std::launch::async, [&] { catalogue.make(); });
  const std::optional<Index> base = find_base_index(python.torch_version);
  WheelHeaders headers =
      read_wheel_headers(python, work, known_headers(base, code),
                         {.jobs = options.jobs, .worker_memory = options.worker_memory}, progress);
  cataloguing.get();
  InterruptGuard::throw_if_interrupted();

  progress.begin("Writing the index");
  IndexContents contents = std::move(headers.contents);
  FunctionNames names(code, contents.functions);
  append(contents, index_generated_code(catalogue.generated(), names));
  contents.ops = catalogue.ops();
  contents.python_names = catalogue.python_names();
  if (base) {
    IndexContents carried = carry_code(*base, code, [&](const std::string& file) {
      return is_generated(file) || headers.files.contains(file);
    });
    fit_enumerators(carried, contents.functions);
    append(contents, std::move(carried));
  }
  drop_removed_ops(contents);
  bind_python_names(contents, {catalogue.generated()});
  if (base) bind_from_base(contents, *base);
  contents.anchors = code.places();
  contents.meta = {{"torch_version", python.torch_version},
                   {"git_version", python.git_version},
                   {"made_from", "wheel"},
                   {"base", base ? std::string(base->torch_version()) : ""},
                   {"units", std::to_string(headers.units)},
                   {"units_failed", std::to_string(headers.failed.size())}};
  write_index(std::move(contents), path);
  return {.path = path,
          .torch_version = python.torch_version,
          .units = headers.units,
          .parsed = headers.parsed,
          .failed = std::move(headers.failed),
          .differing = {}};
}

}  // namespace optrace
