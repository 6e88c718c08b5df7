#include "src/tags/index_tags.h"

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "platform/interrupt.h"
#include "report/locate/locate.h"
#include "report/locate/op_spelling.h"

namespace optrace {
namespace {

class TagCollector {
 public:
  TagCollector(const IndexChoice& choice, const LocalSources& sources)
      : choice_(choice), sources_(sources), locator_(choice.index) {}

  std::set<Tag> run(const std::function<void(std::string_view)>& progress) {
    std::vector<std::string> names;
    for (const OpEntry& op : choice_.index.ops()) names.emplace_back(op.name);
    for (const PythonName& name : choice_.index.python_names())
      if (name.kind == PythonKind::builtin) names.emplace_back(name.name);
    constexpr std::size_t kShowEvery = 500;
    for (std::size_t i = 0; i < names.size(); ++i) {
      InterruptGuard::throw_if_interrupted();
      if (i % kShowEvery == 0) progress(fmt::format("{} of {} names", i, names.size()));
      add(names[i]);
    }
    return std::move(tags_);
  }

 private:
  void add(const std::string& name) {
    for (const Located& answer : locator_.locate(name).answers) {
      if (answer.kind == LocatedKind::op) {
        add_op({split_op_name(answer.name).base, answer.name}, answer);
      } else if (answer.kind == LocatedKind::python_builtin) {
        const std::vector<std::string> tags = {answer.name.substr(answer.name.rfind('.') + 1),
                                               answer.name};
        for (const Located& part : answer.parts)
          part.kind == LocatedKind::op ? add_op(tags, part) : add_place(tags, part, 'f', "");
      }
    }
  }

  void add_op(const std::vector<std::string>& tags, const Located& op) {
    add_place(tags, op, 'o', op.name);
    for (const Located& kernel : op.parts) add_place(tags, kernel, 'f', op.name);
  }

  void add_place(const std::vector<std::string>& tags, const Located& place, char kind,
                 const std::string& op) {
    const std::filesystem::path& file = file_of(place.file);
    if (file.empty() || place.line == 0) return;
    for (const std::string& tag : tags)
      tags_.insert({.name = tag,
                    .file = file,
                    .line = place.line,
                    .kind = kind,
                    .op = op,
                    .key = place.key});
  }

  const std::filesystem::path& file_of(const std::string& file) {
    const auto [found, is_new] = files_.try_emplace(file);
    if (is_new) found->second = sources_.find(file);
    return found->second;
  }

  const IndexChoice& choice_;
  const LocalSources& sources_;
  Locator locator_;
  std::map<std::string, std::filesystem::path> files_;  ///< Where files are on this machine.
  std::set<Tag> tags_;
};

}  // namespace

std::set<Tag> tags_of(const IndexChoice& choice, const LocalSources& sources,
                      const std::function<void(std::string_view)>& progress) {
  return TagCollector(choice, sources).run(progress);
}

}  // namespace optrace
