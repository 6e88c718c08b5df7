#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lookup/layers/layer_survey.h"
#include "lookup/layers/layer_survey_output.h"
#include "platform/error.h"
#include "src/commands/command.h"
#include "src/inputs/index_choice.h"
#include "src/inputs/local_sources.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"
#include "src/terminal/terminal.h"

namespace optrace {
namespace {

struct LayersOptions {
  std::string layer;
  std::string format = "text";
  std::string output;
  std::string python;
  TerminalOptions terminal;
};

void require_layer(const std::string& id) {
  std::vector<std::string_view> ids;
  for (const MappedLayer& layer : layer_map()) ids.push_back(layer.id);
  if (id.empty() || std::find(ids.begin(), ids.end(), id) != ids.end()) return;
  throw Error(ExitStatus::usage, fmt::format("there is no layer '{}'", printable(id)),
              fmt::format("The layers are: {}.", fmt::join(ids, ", ")));
}

std::string rendered(const std::vector<LayerSurvey>& layers, const IndexChoice& choice,
                     const LayersOptions& options) {
  const IndexedSource source = source_of(choice);
  if (options.format == "json") return to_json(layers, source);
  if (options.format == "svg") return to_svg(layers, source);
  const OutputTarget target = options.output.empty() ? standard_output() : OutputTarget{};
  LocateTextOptions text;
  text.width = target.width;
  text.style = style_for(options.terminal, target, find_in(LocalSources(choice)));
  return to_text(layers, source, text);
}

void show_layers(const LayersOptions& options) {
  require_layer(options.layer);
  CommandOutput output(options.output);
  IndexChoice choice = choose_index(options.python);
  say_notices(choice);
  std::vector<LayerSurvey> layers = survey_layers(choice.index);
  if (!options.layer.empty())
    std::erase_if(layers, [&](const LayerSurvey& one) { return one.layer->id != options.layer; });
  output.write_whole(rendered(layers, choice, options));
  output.commit();
}

}  // namespace

void add_layers_command(Command& app) {
  const auto options = std::make_shared<LayersOptions>();
  Command& command =
      app.add_subcommand("layers", "Show PyTorch's layers: the purpose, folders and size of each");
  command.footer(
      "Examples:\n"
      "  optrace layers                   all layers, from torch.* down to CUDA\n"
      "  optrace layers dispatcher        one layer\n"
      "  optrace layers --format svg -o layers.svg   a picture of the map\n"
      "  optrace layers --format json     for programs");
  command.add_positional("LAYER", options->layer, "Only this layer: python, functional, nn, ...");
  command
      .add_option("--format", options->format,
                  "text, svg (a picture), or json (schema optrace.layers/1)")
      .one_of({"text", "json", "svg"})
      .type_name("FORMAT")
      .show_default();
  add_output_file_option(command, options->output);
  command.add_option("--python", options->python, "The Python that has torch").type_name("PATH");
  add_terminal_options(command, options->terminal);
  command.callback([options] { show_layers(*options); });
}

}  // namespace optrace
