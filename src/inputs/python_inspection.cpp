#include "src/inputs/python_inspection.h"

#include <algorithm>
#include <cctype>
#include <cerrno>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"
#include "platform/process/child_process.h"
#include "platform/text/json_reader.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxNameLength = 1000;

// Finds the line of `def` or `class`, not of the decorators above it.
constexpr const char* kQuestion = R"(
import ast, importlib, importlib.util, inspect, json, re, sys
answer = None

# A class may say that it is of another module than the one that it is written in, as
# torch.optim's do; its methods' code knows better than inspect.
def place_of_class(thing):
    codes = [getattr(inspect.unwrap(value), "__code__", None)
             for value in vars(thing).values() if callable(value)]
    for file in dict.fromkeys(code.co_filename for code in codes if code):
        with open(file, encoding="utf-8") as text:
            for node in ast.walk(ast.parse(text.read())):
                if isinstance(node, ast.ClassDef) and node.name == thing.__name__:
                    return file, node.lineno
    raise OSError("no source")

def place_of(thing):
    try:
        file, line = inspect.getsourcefile(thing), 1
        if not inspect.ismodule(thing):
            lines, line = inspect.getsourcelines(thing)
            defining = re.compile(r"\s*(async\s+def|def|class)\b")
            line += next((n for n, text in enumerate(lines) if defining.match(text)), 0)
        return file, line
    except (OSError, TypeError):
        if inspect.isclass(thing):
            return place_of_class(thing)
        raise

words = sys.argv[1].split(".")
thing, rest = None, []
if importlib.util.find_spec(words[0]) is not None:
    for count in range(len(words), 0, -1):
        try:
            thing = importlib.import_module(".".join(words[:count]))
            rest = words[count:]
            break
        except ModuleNotFoundError:
            continue
try:
    for word in rest:
        thing = getattr(thing, word)
    thing = inspect.unwrap(thing) if callable(thing) else thing
    file, line = place_of(thing)
    kind = "module" if inspect.ismodule(thing) else "class" if inspect.isclass(thing) else "function"
    name = thing.__name__ if kind == "module" else thing.__module__ + "." + thing.__qualname__
    if file:
        answer = {"kind": kind, "name": name, "file": file, "line": line}
except (AttributeError, TypeError, OSError, SyntaxError, ValueError):
    pass
json.dump(answer, open(sys.argv[2], "w"))
)";

class OwnedDescriptor {
 public:
  explicit OwnedDescriptor(int number) : number_(number) {}
  ~OwnedDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  OwnedDescriptor(const OwnedDescriptor&) = delete;
  OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

bool is_dotted_python_name(std::string_view name) {
  if (name.size() > kMaxNameLength || name.find('.') == std::string_view::npos) return false;
  bool at_start = true;
  for (const char c : name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
    const bool allowed = c == '.' || digit ? !at_start : letter;
    if (!allowed) return false;
    at_start = c == '.';
  }
  return !at_start;
}

std::optional<Located> inspect_python_name(const std::filesystem::path& python,
                                           const std::string& name,
                                           std::chrono::milliseconds limit) {
  const PrivateFolder scratch;
  const std::filesystem::path answer_file = scratch.path() / "answer.json";
  const OwnedDescriptor nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (nowhere.number() < 0) {
    throw Error(ExitStatus::failed, fmt::format("cannot open /dev/null: {}", describe_errno(errno)),
                "Close some programs and try again.");
  }
  ChildProcess::Options options;
  options.arguments = {std::filesystem::absolute(python).string(), "-c", kQuestion, name,
                       answer_file.string()};
  options.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}, {"PYTHONSAFEPATH", "1"}};
  options.descriptors = {{nowhere.number(), STDIN_FILENO},
                         {nowhere.number(), STDOUT_FILENO},
                         {nowhere.number(), STDERR_FILENO}};
  options.working_folder = std::string("/");
  ChildProcess child(options);
  const std::optional<int> status = child.wait_for(limit);
  if (!status) {
    throw Error(ExitStatus::failed,
                fmt::format("{} took longer than {} s to import the module of {}", python.string(),
                            std::chrono::duration_cast<std::chrono::seconds>(limit).count(), name),
                "Give a name of PyTorch; those need no Python.");
  }
  if (*status != 0) return std::nullopt;  // The module fails to import.
  const auto answer = read_json(read_file(answer_file).value_or(""));
  if (!answer.is_object()) return std::nullopt;
  const auto text = [&](const char* key) {
    const auto found = answer.find(key);
    return found != answer.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto line = answer.find("line");
  Located located;
  located.kind = text("kind") == "module"  ? LocatedKind::python_module
                 : text("kind") == "class" ? LocatedKind::python_class
                                           : LocatedKind::python_function;
  located.name = text("name");
  located.file = text("file");
  located.path = located.file;
  if (line == answer.end() || !line->is_number_unsigned() || located.file.empty() ||
      located.name.empty())
    return std::nullopt;
  located.line = line->get<std::uint32_t>();
  return located;
}

}  // namespace optrace
