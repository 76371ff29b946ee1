#include "evaluate/explain/predictions.h"

#include <string_view>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"

namespace retina {

void write_outcome(JsonWriter& json, const ClassOutcome& outcome, const Categories& categories) {
  const auto id_of = [&](std::int32_t label) {
    return categories.at(static_cast<std::size_t>(label)).id;
  };
  json.field("category_id", id_of(outcome.label))
      .field("rank", static_cast<std::int64_t>(outcome.rank))
      .field("loss", outcome.loss);
  json.key("top5").begin_array();
  for (std::size_t i = 0; i < kBestLabels && outcome.best[i] >= 0; ++i) {
    json.begin_array().value(id_of(outcome.best[i])).value(outcome.probabilities[i]).end_array();
  }
  json.end_array();
}

void write_predictions(const std::string& path, const std::vector<ClassOutcome>& outcomes,
                       const Categories& categories, const FileNames& file_names) {
  std::string text;
  for (const ClassOutcome& one : outcomes) {
    JsonWriter line;
    line.begin_object().field("image_id", one.image_id);
    if (const auto name = file_names.find(one.image_id); name != file_names.end()) {
      line.field("file_name", name->second);
    }
    write_outcome(line, one, categories);
    text += line.end_object().text() + "\n";
  }
  write_file_atomically(path, text);
}

std::vector<Prediction> read_predictions(const std::string& path) {
  const std::string bytes = read_file(path);
  std::vector<Prediction> predictions;
  for (std::string_view text = bytes; !text.empty();) {
    const std::size_t end = text.find('\n');
    const JsonFile line =
        JsonFile::parse(text.substr(0, end), cat(path, ": line ", predictions.size() + 1));
    const JsonView root = line.root(), best = root.at("top5").at(std::size_t{0});
    predictions.push_back(
        {.image_id = root.at("image_id").as_int(),
         .file_name = root.has("file_name") ? root.at("file_name").as_string() : "",
         .category_id = root.at("category_id").as_int(),
         .predicted_id = best.at(std::size_t{0}).as_int(),
         .confidence = best.at(std::size_t{1}).as_double(),
         .rank = root.at("rank").as_int(),
         .loss = root.at("loss").as_double()});
    if (const std::size_t count = predictions.size();
        count > 1 && predictions[count - 2].image_id >= predictions[count - 1].image_id) {
      root.at("image_id")
          .fail(cat("image ids must ascend (got ", predictions[count - 1].image_id, " after ",
                    predictions[count - 2].image_id, ")"));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return predictions;
}

}  // namespace retina
