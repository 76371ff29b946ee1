#include "evaluate/compare/compare.h"

#include "evaluate/compare/classification_comparison.h"
#include "evaluate/explain/classification_text.h"
#include "evaluate/explain/predictions.h"
#include "evaluate/outcome.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"

namespace retina {

namespace {

void refuse_given_truth(const EvalOptions& options) {
  for (const auto& [name, is_given] :
       {std::pair{"annotations", !options.annotations.empty()}, {"data", !options.data.empty()}}) {
    if (!is_given) continue;
    throw Error(ErrorKind::kUsage,
                cat("--", name, ": has no effect with two classifiers, whose predictions hold the ",
                    "true classes"),
                "leave the option out");
  }
}

// Returns the categories of an evaluation, in its order.
Categories evaluated_categories(const std::string& folder) {
  const JsonFile metrics = JsonFile::read(folder + "/metrics.json");
  const JsonView classes = metrics.root().at("per_class");
  Categories categories;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    categories.push_back({.id = classes.at(i).at("category_id").as_int(),
                          .name = classes.at(i).at("name").as_string()});
  }
  return categories;
}

}  // namespace

int compare_classifiers(const EvalOptions& options, const Cli& cli,
                        const std::array<StoredEvaluation, 2>& stored) {
  refuse_given_truth(options);
  std::array<ClassifiedSide, 2> sides;
  EvalIdentity identity;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string& path = stored[i].results;
    sides[i] = {.name = options.compare[i], .predictions = read_predictions(path)};
    identity.emplace_back(i == 0 ? EvaluationFolder::kComparedA : EvaluationFolder::kComparedB,
                          quoted(hex64(xxh3_file(path))));
  }
  identity.emplace_back(EvaluationFolder::kTask, quoted(kClassificationTask));
  const auto compare = [&](const ComparedNames& names) -> ComparisonTexts {
    const ClassificationComparison comparison =
        compare_predictions(sides, evaluated_categories(options.compare[0]));
    return {.json = classification_comparison_json(names, comparison),
            .tables = classification_comparison_text(names, comparison),
            .notes = {classification_interval_note(comparison)}};
  };
  return publish_comparison(options, cli,
                            {.identity = identity,
                             .inputs = {stored[0].results, stored[1].results},
                             .truth = stored[0].truth.path,
                             .metric = "top-1",
                             .compare = compare});
}

}  // namespace retina
