#include "train/run/continuation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/cli/cli.h"
#include "train/run/run_state.h"
#include "train/start/options.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

// retina-train's options as given.
struct Command {
  explicit Command(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), {"retina-train", "--train", "shards", "--output", "run"});
    Cli cli("retina-train", "", "");
    declare_options(cli, options);
    EXPECT_EQ(cli.parse(static_cast<int>(arguments.size()), arguments.data()), CliOutcome::kRun);
    config.options = cli.effective();
    config.train_fingerprint = "aa";
  }
  TrainOptions options = {};
  RunConfig config = {};
};

// As a run of that command writes it.
Found checkpoint_of(const Command& command) {
  Found found{.checkpoint = {}, .path = "checkpoint-01.pt"};
  JsonWriter json;
  json.begin_object().key("model").raw(command.options.model_config(1).to_json());
  json.key("train").begin_object();
  for (const auto& option : command.config.options) json.key(option.name).raw(option.json);
  found.checkpoint.config_json = json.end_object().end_object().text();
  const RunState state{.facts = {.train_fingerprint = command.config.train_fingerprint,
                                 .validation_fingerprint = command.config.validation_fingerprint}};
  found.checkpoint.trainer_json = state.to_json();
  return found;
}

// The error's message; empty when there is none.
std::string refusal(const Found& found, const Command& command) {
  try {
    check_continues(found,
                    {.config = command.config,
                     .model = command.options.model_config(1),
                     .has_weights = !command.options.from_scratch(),
                     .has_trainable_layers = command.options.model.trainable_layers.has_value()});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.what();
  }
  return "";
}

TEST(Continuation, MayChangeWhatDecidesNoBit) {
  const Found found = checkpoint_of(Command({"--threads", "1"}));
  EXPECT_EQ(refusal(found, Command({"--threads", "3", "--epochs", "9", "--keep", "1"})), "");
}

TEST(Continuation, ListsAllOptionsThatMayNotChange) {
  const Found found = checkpoint_of(Command({"--ema", "0.9"}));
  const std::string text = refusal(found, Command({"--seed", "2", "--shuffle", "global",
                                                   "--steps-per-epoch", "7", "--keep", "9"}));
  EXPECT_THAT(text, HasSubstr("seed (was 1, now 2)"));
  EXPECT_THAT(text, HasSubstr("shuffle (was \"sharded\", now \"global\")"));
  EXPECT_THAT(text, HasSubstr("steps-per-epoch (was 0, now 7)"));
  EXPECT_THAT(text, HasSubstr("ema (was 0.9, now 0"));
  EXPECT_THAT(text, Not(HasSubstr("keep")));
}

TEST(Continuation, WantsTheSameTrainingSet) {
  const Found found = checkpoint_of(Command({}));
  Command other({});
  other.config.train_fingerprint = "bb";
  EXPECT_THAT(refusal(found, other), HasSubstr("the contents of --train (was \"aa\", now \"bb\")"));
}

TEST(Continuation, ComparesValidationSetsWhereBothHaveOne) {
  Command first({}), other({}), none({});
  first.config.validation_fingerprint = "11";
  other.config.validation_fingerprint = "22";
  EXPECT_THAT(
      refusal(checkpoint_of(first), other),
      HasSubstr("the contents of --validation, or --validation-images (was \"11\", now \"22\")"));
  EXPECT_EQ(refusal(checkpoint_of(first), first), "");
  EXPECT_EQ(refusal(checkpoint_of(first), none), "");
  EXPECT_EQ(refusal(checkpoint_of(none), first), "") << "nor had checkpoints of before the field";
}

TEST(Continuation, FromScratchOnPurposeIsFromScratch) {
  const Found scratch = checkpoint_of(Command({}));
  EXPECT_EQ(refusal(scratch, Command({"--init", "none"})), "");
  EXPECT_EQ(refusal(checkpoint_of(Command({"--init", "none"})), Command({})), "");
  const std::vector<const char*> batch{"--init", "weights.pt", "--norm", "batch"};
  EXPECT_THAT(
      refusal(checkpoint_of(Command(batch)), Command({"--init", "none", "--norm", "batch"})),
      HasSubstr("init (was given, now unset"));
}

TEST(Continuation, WantsTheSameModel) {
  const Found found = checkpoint_of(Command({"--init", "weights.pt"}));
  EXPECT_THAT(refusal(found, Command({})), HasSubstr("the model (was {")) << "its norm is trained";
  EXPECT_EQ(refusal(found, Command({"--init", "weights.pt"})), "");
}

// As recipes named the norm once that follows from --init.
TEST(Continuation, AnUnsetNormIsTheOneThatItStandsFor) {
  const Command named({"--init", "weights.pt", "--norm", "frozen"});
  const Command unset({"--init", "weights.pt"});
  EXPECT_EQ(refusal(checkpoint_of(named), unset), "");
  EXPECT_EQ(refusal(checkpoint_of(unset), named), "");
  const Command batch({"--init", "weights.pt", "--norm", "batch"});
  EXPECT_THAT(refusal(checkpoint_of(named), batch),
              HasSubstr("norm (was \"frozen\", now \"batch\")"));
  EXPECT_THAT(refusal(checkpoint_of(batch), unset), HasSubstr("the model (was {"));
}

TEST(Continuation, TheSizeIsThatOfTheModel) {
  const Command medium({}), narrow({"--fpn-channels", "64", "--head-convs", "1"});
  EXPECT_THAT(refusal(checkpoint_of(medium), narrow), HasSubstr("fpn-channels (was 256, now 64)"));
}

TEST(Continuation, WantsTheSameLayersToLearn) {
  const Found found = checkpoint_of(Command({"--init", "weights.pt", "--norm", "batch"}));
  EXPECT_THAT(refusal(found, Command({"--norm", "batch"})),
              HasSubstr("init (was given, now unset"));
  EXPECT_EQ(refusal(found, Command({"--init", "moved/weights.pt", "--norm", "batch"})), "");
  const std::vector<const char*> layers{"--norm", "batch", "--trainable-layers", "2"};
  EXPECT_EQ(refusal(checkpoint_of(Command(layers)), Command(layers)), "");
  const Found scratch = checkpoint_of(Command({}));
  EXPECT_THAT(refusal(scratch, Command({"--init", "weights.pt", "--norm", "batch"})),
              HasSubstr("init (was unset, now given"));
}

}  // namespace
}  // namespace retina
