#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "lookup/layers/layer_survey.h"
#include "lookup/layers/layer_survey_output.h"
#include "platform/error.h"
#include "platform/text/joined.h"
#include "src/commands/command.h"
#include "src/inputs/local_sources.h"
#include "src/inputs/selected_index.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"

namespace optrace {
namespace {

struct LayersOptions : AnswerOptions {
  std::string layer;
  std::string python;
};

void require_layer(const std::string& id) {
  std::vector<std::string_view> ids;
  for (const MappedLayer& layer : layer_map()) ids.push_back(layer.id);
  if (id.empty() || std::ranges::find(ids, id) != ids.end()) return;
  throw Error(ExitStatus::usage, fmt::format("there is no layer '{}'", printable(id)),
              fmt::format("The layers are: {}.", joined(ids, ", ")));
}

std::string rendered(const std::vector<LayerSurvey>& layers, const SelectedIndex& choice,
                     const LayersOptions& options) {
  const IndexedSource source = source_of(choice);
  if (options.format == "json") return to_json(layers, source);
  if (options.format == "svg") return to_svg(layers, source);
  LocateTextOptions text;
  text.width = options.target().width;
  text.style = options.style(find_in(LocalSources(choice)));
  return to_text(layers, source, text);
}

void show_layers(const LayersOptions& options) {
  require_layer(options.layer);
  CommandOutput output(options.file);
  SelectedIndex choice = choose_index(options.python);
  print_notices(choice);
  std::vector<LayerSurvey> layers = survey_layers(choice.index);
  if (!options.layer.empty())
    std::erase_if(layers, [&](const LayerSurvey& one) { return one.layer->id != options.layer; });
  output.write_whole(rendered(layers, choice, options));
  output.commit();
}

OptionRows option_rows(LayersOptions& options) {
  return {
      {"LAYER", "", "Only this layer: python, functional, nn, ...", &options.layer},
      format_row(options.format,
                 {{"text"}, {"svg", "a picture"}, {"json", "schema optrace.layers/1"}}),
      output_file_row(options.file),
      python_row(options.python),
      terminal_rows(options.terminal),
  };
}

}  // namespace

CommandBody layers_command() {
  return command_body<LayersOptions>(option_rows, show_layers);
}

}  // namespace optrace
