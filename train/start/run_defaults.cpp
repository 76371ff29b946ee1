#include "train/start/run_defaults.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <set>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "train/start/recipes.h"

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
  if (start.image_count < kSmallSetImages) {
    return {kSmallRecipe,
            cat("recipe ", kSmallRecipe, ", chosen because ",
                start.has_tiles ? counted(start.image_count, "tile with boxes", "tiles with boxes")
                                : counted(start.image_count, "image"),
                " are few (fewer than ", kSmallSetImages, ")", without)};
  }
  return {kAutoRecipe, ""};
}

// The same of a run that continues; its recipe may be one that was named then and is missing now,
// which is told among the other differences.
std::pair<std::string, std::string> recipe_before(const Cli& cli, const TrainOptions& options,
                                                  const OptionTexts& before) {
  const std::string recipe = cli.stored(options.recipe, before).value_or(kNoRecipe);
  if (!is_ours(recipe)) return {kNoRecipe, ""};
  return {recipe, recipe == kAutoRecipe ? "" : cat("recipe ", recipe, ", as the run began")};
}

// Returns what sets a chosen recipe's values: whoever gives an option gets the options' own
// defaults of those that belong to it: a weight is for its loss, a rate for the recipe's optimizer.
// With a limit of staging there may be no room for all shards, which the global order reads at
// once; the limit may change when a run continues, the order may not.
Setter recipe_setter(Cli& cli, const TrainOptions& o, const Recipe& recipe, const RunStart& start) {
  const bool had_limit = start.before && cli.stored(o.data.stage.limit_bytes, *start.before);
  std::set<const void*> kept;
  const auto keep = [&](bool is_given, std::initializer_list<const void*> targets) {
    if (is_given) kept.insert(targets);
  };
  const auto& optimizer = o.optimizer;
  TrainOptions whole;
  recipe.apply(whole, Setter([](const void*) { return true; }));
  keep(optimizer.rule.kind != whole.optimizer.rule.kind && cli.given(optimizer.rule.kind),
       {&optimizer.lr, &optimizer.weight_decay});
  keep(cli.given(o.loss.focal_alpha) || cli.given(o.loss.focal_gamma), {&o.loss.class_loss});
  keep(cli.given(o.loss.box.kind), {&o.loss.box_weight});
  keep(had_limit || cli.given(o.data.stage.limit_bytes), {&o.data.shuffle});
  return cli.data_setter(std::move(kept));
}

// Decides how long the run is and how often it validates and saves. Returns a note, or "".
std::string decide_length(Cli& cli, TrainOptions& o, const RecipeFacts& facts,
                          const RunStart& start) {
  if (start.before) {
    cli.decide_as_before(*start.before, o.length.epochs, o.length.steps, o.validation.every_epochs,
                         o.checkpoints.every);
    return "";
  }
  const std::int64_t steps = start.steps_per_epoch;
  const std::int64_t epochs = (facts.least_steps + steps - 1) / steps;
  cli.decide(o.length.epochs, std::max<std::int64_t>(epochs, facts.epochs));
  if (epochs <= facts.epochs) return "";
  const std::int64_t period = (epochs + kValidations - 1) / kValidations;
  cli.decide(o.validation.every_epochs, static_cast<int>(period));
  cli.decide(o.checkpoints.every, cat(period, "epochs"));
  return cat(counted(epochs, "epoch"), ", chosen because ", facts.epochs,
             " of a set this small are ", counted(facts.epochs * steps, "step"), " only (want ",
             facts.least_steps, "); validates and saves every ", counted(period, "epoch"),
             "; --epochs sets another number");
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

std::vector<std::string> decide_run(Cli& cli, TrainOptions& options, const RunStart& start) {
  std::vector<std::string> notes;
  const auto add = [&](const std::string& note) {
    if (!note.empty()) notes.push_back(note);
  };
  if (options.recipe == kFinetuneRecipe && !start.before && options.from_scratch()) {
    throw Error(
        ErrorKind::kConfig,
        cat("--recipe ", options.recipe, ": begins with a trained detector, --init is missing"),
        "give --init coco-v2, a run's folder or a checkpoint");
  }
  if (options.recipe == kAutoRecipe) {
    const auto [name, why] =
        start.before ? recipe_before(cli, options, *start.before) : choose_recipe(options, start);
    add(why);
    if (const Recipe* const recipe = find_recipe(name)) {
      recipe->apply(options, recipe_setter(cli, options, *recipe, start));
    }
    cli.reopen(options.recipe);
    cli.decide(options.recipe, name);
  }
  const RecipeFacts facts = facts_of_recipe(options.recipe);
  if (!facts.fits_data) return notes;
  cli.decide(options.schedule.warmup_steps, std::nullopt);
  cli.decide(options.schedule.drop_at, std::vector<std::string>{"16/26", "22/26"});
  // SGD's rate follows the images of a step (Goyal et al. 2017), AdamW's best does not:
  // docs/measurements.md.
  if (!cli.given(options.optimizer.lr) && options.optimizer.rule.kind == OptimizerKind::kSgd) {
    cli.decide(options.optimizer.lr_scaling, LrScaling::kLinear);
  }
  if (!options.length.epochs && !options.length.steps && options.length.time.empty()) {
    add(decide_length(cli, options, facts, start));
  }
  return notes;
}

std::string length_text(const TrainOptions& options, std::int64_t steps_per_epoch) {
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

std::string warmup_warning(const TrainOptions& options, std::int64_t steps_per_epoch) {
  const std::int64_t total = options.total_steps(steps_per_epoch);
  const std::int64_t warmup =
      options.schedule_of({.total_steps = total, .steps_per_epoch = steps_per_epoch}).warmup_steps;
  if (warmup < total) return "";
  return cat("the run ends in its warm-up (", counted(total, "step"), ", warm-up of ", warmup,
             "): the learning rate never reaches ", rate_text(options.effective_lr()),
             "; give fewer --warmup-steps, or more --epochs");
}

std::string length_change_text(const ScheduleOptions& before, const ScheduleOptions& now,
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
