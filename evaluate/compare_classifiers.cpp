#include "evaluate/compare.h"

#include <iostream>

#include "evaluate/outcome.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/evaluation/compare/classification_comparison.h"
#include "shared/evaluation/explain/classification_text.h"
#include "shared/evaluation/score/predictions.h"

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
  const ClassificationComparison comparison =
      compare_predictions(sides, evaluated_categories(options.compare[0]));

  EvaluationFolder folder(options.output);
  if (const auto top1s = folder.begin_comparison(identity, cli.effective(), options.overwrite,
                                                 {stored[0].results, stored[1].results})) {
    std::cout << folder.path() << ": already compared, top-1 " << fixed(top1s->a, 4) << " and "
              << fixed(top1s->b, 4) << " (--overwrite to do it again)\n";
    return 0;
  }
  const ComparedNames names = with_pages(
      {.a = sides[0].name, .b = sides[1].name, .truth = stored[0].truth.path}, options.output);
  publish_comparison(folder, cli, names,
                     {.json = classification_comparison_json(names, comparison),
                      .tables = classification_comparison_text(names, comparison),
                      .notes = {classification_interval_note(comparison)}});
  return 0;
}

}  // namespace retina
