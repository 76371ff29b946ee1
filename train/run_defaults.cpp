#include "train/run_defaults.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "train/recipes.h"

namespace retina {
namespace {

// About this many validations and checkpoints, where the data decide how many epochs there are.
constexpr std::int64_t kValidations = 26;

bool is_ours(const std::string& recipe) {
  return facts_of_recipe(recipe).fits_data;
}

// The recipe of a new run, and why.
std::pair<std::string, std::string> choose_recipe(const TrainOptions& options,
                                                  const RunStart& start) {
  const char* const without = "; --recipe none trains without it";
  if (options.data.synthetic > 0) return {kNoRecipe, ""};
  if (options.classifies()) return {kAutoRecipe, ""};
  if (start.has_detector) {
    return {kFinetuneRecipe, cat("recipe ", kFinetuneRecipe,
                                 ", chosen because --init brings a trained detector", without)};
  }
  if (options.from_scratch() && start.image_count < kSmallSetImages) {
    return {kSmallRecipe,
            cat("recipe ", kSmallRecipe, ", chosen because ",
                start.has_tiles ? counted(start.image_count, "tile with boxes", "tiles with boxes")
                                : counted(start.image_count, "image"),
                " from scratch are few (fewer than ", kSmallSetImages, ")", without)};
  }
  return {kAutoRecipe, ""};
}

// The same of a run that continues; its recipe may be one that was named then and is missing now,
// which is told among the other differences.
std::pair<std::string, std::string> recipe_before(const RunStart& start) {
  const auto stored = start.before->find("recipe");
  const std::string recipe = stored == start.before->end() ? kNoRecipe : stored->second;
  if (!is_ours(recipe)) return {kNoRecipe, ""};
  return {recipe, recipe == kAutoRecipe ? "" : cat("recipe ", recipe, ", as the run began")};
}

// A recipe is chosen; whoever gives an option gets the options' own defaults of those that belong
// to it: a rate is for its optimizer, a weight for its loss. With --stage-limit there may be no
// room for all shards, which --shuffle global reads at once.
void leave_out_what_is_given(Cli::Settings& settings, const Cli& cli) {
  static const std::multimap<std::string, std::string> kBelongs = {{"optimizer", "lr"},
                                                                   {"optimizer", "weight-decay"},
                                                                   {"lr", "optimizer"},
                                                                   {"lr", "weight-decay"},
                                                                   {"focal-alpha", "class-loss"},
                                                                   {"focal-gamma", "class-loss"},
                                                                   {"box-loss", "box-loss-weight"},
                                                                   {"stage-limit", "shuffle"}};
  for (const auto& [given, name] : kBelongs) {
    if (!cli.given(given)) continue;
    std::erase_if(settings, [&name = name](const auto& one) { return one.first == name; });
  }
}

Cli::Settings settings_of(const std::string& recipe, const Cli& cli, const RunStart& start) {
  const auto found = recipes().find(recipe);
  if (found == recipes().end()) return {};
  Cli::Settings settings = found->second;
  leave_out_what_is_given(settings, cli);
  // --stage-limit may change, the order of the images may not.
  if (start.before && start.before->contains("stage-limit")) {
    std::erase_if(settings, [](const auto& one) { return one.first == "shuffle"; });
  }
  return settings;
}

// A rate alone: it is for the options' optimizer, not for the recipe's.
std::string note_on_optimizer(const std::string& recipe, const Cli& cli,
                              const TrainOptions& options) {
  const auto found = recipes().find(recipe);
  if (found == recipes().end() || !cli.given("lr") || cli.given("optimizer")) return "";
  for (const auto& [name, value] : found->second) {
    if (name != "optimizer") continue;
    return cat("optimizer ", word_of(kOptimizers, options.optimizer.rule.kind),
               ", not the recipe's ", value,
               ", because --lr is given without --optimizer; give "
               "--optimizer ",
               value, " to keep it");
  }
  return "";
}

// How long, and how often to validate and save.
RunDefaults length_before(const RunStart& start) {
  RunDefaults kept;
  for (const char* name : {"epochs", "steps", "validate-every", "checkpoint-every"}) {
    const auto stored = start.before->find(name);
    if (stored != start.before->end()) kept.settings.emplace_back(name, stored->second);
  }
  return kept;
}

RunDefaults length_of(const RecipeFacts& facts, const RunStart& start) {
  const std::int64_t steps = start.steps_per_epoch;
  const std::int64_t epochs = (facts.least_steps + steps - 1) / steps;
  if (epochs <= facts.epochs) return {.settings = {{"epochs", cat(facts.epochs)}}};
  const std::int64_t period = (epochs + kValidations - 1) / kValidations;
  return {.settings = {{"epochs", cat(epochs)},
                       {"validate-every", cat(period)},
                       {"checkpoint-every", cat(period, "epochs")}},
          .notes = {cat(counted(epochs, "epoch"), ", chosen because ", facts.epochs,
                        " of a set this small are ", counted(facts.epochs * steps, "step"),
                        " only (want ", facts.least_steps, "); validates and saves every ",
                        counted(period, "epoch"), "; --epochs sets another number")}};
}

void append(RunDefaults& all, const RunDefaults& more) {
  all.settings.insert(all.settings.end(), more.settings.begin(), more.settings.end());
  all.notes.insert(all.notes.end(), more.notes.begin(), more.notes.end());
}

std::string listed(const std::vector<std::int64_t>& steps) {
  std::string text;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    text += cat(i == 0 ? "" : i + 1 == steps.size() ? " and " : ", ", steps[i]);
  }
  return text;
}

// What the schedule has to say beside its rate: "drops at steps 960 and 1320".
std::string drops_of(const ScheduleOptions& schedule) {
  if (schedule.kind != ScheduleKind::kStep) return word_of(kSchedules, schedule.kind);
  std::vector<std::int64_t> inside = schedule.drop_steps;
  std::erase_if(inside, [&](std::int64_t step) { return step >= schedule.total_steps; });
  if (inside.empty()) return "never drops";
  return cat(inside.size() == 1 ? "drops at step " : "drops at steps ", listed(inside));
}

}  // namespace

std::string rate_text(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", rate);
  return text;
}

RunDefaults run_defaults(const Cli& cli, const TrainOptions& options, const RunStart& start) {
  RunDefaults result;
  std::string recipe = options.recipe;
  if (recipe == kFinetuneRecipe && !start.before && options.from_scratch()) {
    throw Error(ErrorKind::kConfig,
                cat("--recipe ", recipe, ": begins with a trained detector, --init is missing"),
                "give --init coco-v2, a run's folder or a checkpoint");
  }
  if (recipe == kAutoRecipe) {
    std::string note;
    std::tie(recipe, note) = start.before ? recipe_before(start) : choose_recipe(options, start);
    if (!note.empty()) result.notes.push_back(note);
    result.settings = settings_of(recipe, cli, start);
    note = note_on_optimizer(recipe, cli, options);
    if (!note.empty()) result.notes.push_back(note);
    result.settings.emplace_back("recipe", recipe);
  }
  if (recipe == kMlperfRecipe && options.model.init.empty() && !start.before) {
    result.notes.push_back(
        "recipe mlperf from scratch: the benchmark begins with a ResNeXt-50 of ImageNet, --init "
        "imagenet-v1-resnext50_32x4d");
  }
  const RecipeFacts facts = facts_of_recipe(recipe);
  if (facts.fits_data) {
    result.settings.insert(result.settings.end(),
                           {{"warmup-steps", "auto"}, {"lr-drop-at", "16/26,22/26"}});
    if (!cli.given("lr")) result.settings.emplace_back("lr-scaling", "linear");
    if (!options.length.epochs && !options.length.steps) {
      append(result, start.before ? length_before(start) : length_of(facts, start));
    }
  }
  std::erase_if(result.settings,
                [&](const auto& one) { return one.first != "recipe" && cli.given(one.first); });
  return result;
}

std::string course_of(const TrainOptions& options, std::int64_t steps_per_epoch) {
  const std::int64_t total = options.total_steps(steps_per_epoch);
  const ScheduleOptions schedule =
      options.schedule_of({.total_steps = total, .steps_per_epoch = steps_per_epoch});
  std::string length = counted(total, "step");
  if (!options.length.steps) {
    length = cat(counted(total / steps_per_epoch, "epoch"), " of ",
                 counted(steps_per_epoch, "step"), ", ", total, " in all");
  }
  return cat(length, "; warm-up of ", counted(schedule.warmup_steps, "step"),
             ", then learning rate ", rate_text(schedule.base_lr), ", ", drops_of(schedule));
}

std::string warning_of_course(const TrainOptions& options, std::int64_t steps_per_epoch) {
  const std::int64_t total = options.total_steps(steps_per_epoch);
  const std::int64_t warmup =
      options.schedule_of({.total_steps = total, .steps_per_epoch = steps_per_epoch}).warmup_steps;
  if (warmup < total) return "";
  return cat("the run ends in its warm-up (", counted(total, "step"), ", warm-up of ", warmup,
             "): the learning rate never reaches ", rate_text(options.effective_lr()),
             "; give fewer --warmup-steps, or more --epochs");
}

std::string change_of_course(const ScheduleOptions& before, const ScheduleOptions& now,
                             std::int64_t step) {
  if (before.total_steps == now.total_steps) return "";
  std::string text =
      cat("continues at step ", step, " with another length: ", counted(now.total_steps, "step"),
          " (was ", before.total_steps, ")");
  const std::string drops = drops_of(now), drops_before = drops_of(before);
  text += cat("; the learning rate ", now.kind == ScheduleKind::kStep ? "" : "schedule is ", drops);
  if (drops != drops_before) text += cat(" (was: ", drops_before, ")");
  const double rate = learning_rate(now, step), rate_before = learning_rate(before, step);
  text += rate == rate_before ? cat(" and stays ", rate_text(rate), " here")
                              : cat(" and is ", rate_text(rate), " from here on (was to be ",
                                    rate_text(rate_before), ")");
  return text;
}

}  // namespace retina
