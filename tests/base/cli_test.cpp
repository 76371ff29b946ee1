#include "shared/cli/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

enum class Kind { kSgd, kAdam };

struct Options {
  int epochs = 26;
  double lr = 0.01;
  std::string output{};
  bool overwrite = false;
  Kind optimizer = Kind::kSgd;
  std::optional<Kind> second{};
  bool sync = false;
  std::uint64_t shard_size_bytes = 256U << 20;
  std::optional<std::uint64_t> limit_bytes{};
  std::vector<double> sizes = {32, 64};
  std::optional<std::int64_t> steps{};
  std::uint64_t seed = 0;
  std::string recipe = "none", plan = "auto";
  std::optional<std::vector<double>> shares = {{1, 2}};
  std::optional<std::int64_t> warmup{};
  std::array<std::string, 2> versus{};
  std::vector<std::string> files{};
};

// One option of each type.
void declare(Cli& cli, Options& options) {
  cli.group("Training");
  cli.option("epochs", options.epochs, "N", "passes over the data");
  cli.option("lr", options.lr, "LR", "learning rate");
  cli.option("output", options.output, "DIR", "where to write");
  cli.flag("overwrite", options.overwrite, "start afresh");
  const Choices<Kind> kinds = {{"sgd", Kind::kSgd}, {"adam", Kind::kAdam}};
  cli.choice("optimizer", options.optimizer, kinds, "which one");
  cli.choice("second", options.second, kinds, "which other");
  cli.on_off("sync", options.sync, "together");
  cli.bytes("shard-size", options.shard_size_bytes, "bytes a shard");
  cli.bytes("limit", options.limit_bytes, "bytes in all");
  cli.option("anchor-sizes", options.sizes, "LIST", "pixels");
  cli.option("steps", options.steps, "N", "instead of --epochs");
  cli.option("seed", options.seed, "N", "of chance");
  cli.pair("versus", options.versus, "ONE OTHER", "against each other");
  cli.list("files", options.files, "PATH...", "what to read");
  cli.option_or_auto("shares", options.shares, "LIST", "by level");
  cli.option_or_auto("warmup", options.warmup, "N", "steps");
  cli.preset("plan", options.plan,
             {{"long", [&options](const Setter& set) { set(options.epochs, 99); }}}, "settings");
  const auto quick = [&options](const Setter& set) {
    set(options.epochs, 2);
    set(options.lr, 0.5);
  };
  cli.preset("recipe", options.recipe, {{"quick", quick}}, "settings");
}

class CliTest : public testing::Test {
 protected:
  CliTest() { declare(cli_, options_); }

  CliOutcome parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    return cli_.parse(static_cast<int>(arguments.size()), arguments.data());
  }

  // The error that a new parser ends with.
  static Error refusal(std::vector<const char*> arguments) {
    Options options;
    Cli cli("program", "", "");
    declare(cli, options);
    arguments.insert(arguments.begin(), "program");
    try {
      cli.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error(ErrorKind::kInternal, "");
  }

  Options options_;
  Cli cli_{"program", "program --output DIR", "does things"};
};

TEST_F(CliTest, FillsEveryType) {
  EXPECT_EQ(parse({"--epochs", "3", "--lr=1e-4", "--output", "x y", "--overwrite", "--optimizer",
                   "adam", "--shard-size", "1.5MiB", "--limit", "5KiB", "--anchor-sizes", "16,32.5",
                   "--steps", "9"}),
            CliOutcome::kRun);
  EXPECT_EQ(options_.epochs, 3);
  EXPECT_EQ(options_.lr, 1e-4);
  EXPECT_EQ(options_.output, "x y");
  EXPECT_TRUE(options_.overwrite);
  EXPECT_EQ(options_.optimizer, Kind::kAdam);
  EXPECT_EQ(options_.shard_size_bytes, 3U << 19);
  EXPECT_EQ(options_.limit_bytes, 5U << 10);
  EXPECT_THAT(options_.sizes, ElementsAre(16.0, 32.5));
  EXPECT_EQ(options_.steps, 9);
}

TEST_F(CliTest, KeepsTheDefaultsOfWhatIsNotGiven) {
  parse({"--epochs", "3"});
  EXPECT_EQ(options_.lr, 0.01);
  EXPECT_EQ(options_.steps, std::nullopt);
  EXPECT_EQ(options_.limit_bytes, std::nullopt);
  EXPECT_TRUE(cli_.given(options_.epochs));
  EXPECT_FALSE(cli_.given(options_.lr));
}

TEST_F(CliTest, AnOptionOfTwoValuesTakesBoth) {
  parse({"--epochs", "3", "--versus", "a,b", "c d", "--lr", "0.5"});
  EXPECT_THAT(options_.versus, ElementsAre("a,b", "c d"));
  EXPECT_EQ(options_.lr, 0.5);
  EXPECT_THAT(cli_.help_text(), HasSubstr("--versus ONE OTHER"));
}

TEST_F(CliTest, AnOptionOfTwoValuesMayBeTheLastOrHaveAnEqualsSign) {
  parse({"--versus=a", "b"});
  EXPECT_THAT(options_.versus, ElementsAre("a", "b"));
  EXPECT_THAT(refusal({"--versus", "a", "--lr", "1"}).what(),
              HasSubstr("--versus: wants two values, ONE OTHER (got 1)"));
}

TEST_F(CliTest, AListTakesAllValuesUpToTheNextOption) {
  parse({"--files", "a,b", "c d", "*.jpg", "--lr", "0.5"});
  EXPECT_THAT(options_.files, ElementsAre("a,b", "c d", "*.jpg"));
  EXPECT_EQ(options_.lr, 0.5);
  EXPECT_THAT(cli_.help_text(), HasSubstr("--files PATH..."));
  EXPECT_THAT(refusal({"--files", "a", ""}).what(), HasSubstr("--files: bad value (got \"\""));
  EXPECT_THAT(refusal({"--files", "--lr", "0.5"}).what(),
              HasSubstr("--files: has no value (got --lr, want PATH...)"));
}

TEST_F(CliTest, AListMayBeGivenAgainWithMoreValues) {
  parse({"--files", "a", "b", "--lr", "0.5", "--files=c", "--files", "a"});
  EXPECT_THAT(options_.files, ElementsAre("a", "b", "c", "a"));
  EXPECT_THAT(refusal({"--files", "a", "--files", "--lr", "0.5"}).what(),
              HasSubstr("--files: has no value (got --lr, want PATH...)"));
  const Error twice = refusal({"--versus", "a", "b", "--versus", "c", "d"});
  EXPECT_THAT(twice.what(), HasSubstr("--versus is given twice"));
  EXPECT_EQ(twice.hint(), "give all its values after one --versus");
  EXPECT_THAT(refusal({"--lr", "1", "--files", "a", "--lr", "1"}).what(),
              HasSubstr("--lr is given twice"));
}

TEST_F(CliTest, AListInAConfigFileIsATextOrAnArray) {
  const TestFolder folder;
  for (const auto& [text, wanted] :
       {std::pair<std::string, std::vector<std::string>>{R"({"files": "a,b"})", {"a,b"}},
        {R"({"files": ["a,b", "c"]})", {"a,b", "c"}}}) {
    write_file_atomically(folder / "options.json", text);
    Options options;
    Cli cli("program", "", "");
    declare(cli, options);
    const std::string path = folder / "options.json";
    const std::array arguments{"program", "--config", path.c_str()};
    cli.parse(static_cast<int>(arguments.size()), arguments.data());
    EXPECT_EQ(options.files, wanted);
  }
}

TEST_F(CliTest, NamesTheNearestMatchOfAnUnknownOption) {
  const Error error = refusal({"--epoch", "3"});
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.what(), HasSubstr("--epoch"));
  EXPECT_THAT(error.hint(), HasSubstr("--epochs"));
}

TEST_F(CliTest, RefusesBadValues) {
  const std::vector<std::vector<const char*>> cases = {
      {"--epochs", "3.5"},
      {"--epochs", "three"},
      {"--epochs", "99999999999"},
      {"--epochs", ""},
      {"--output", ""},
      {"--config", ""},
      {"--lr", "nan"},
      {"--lr", "1e-4x"},
      {"--optimizer", "adamw"},
      {"--second", "adamw"},
      {"--sync", "maybe"},
      {"--shard-size", "1TB"},
      {"--shard-size", "-1MiB"},
      {"--anchor-sizes", "1,x"},
      {"--anchor-sizes", ""},
      {"--overwrite=yes"},
      {"stray"},
      {"--versus"},
      {"--versus", "a"},
      {"--versus", "a", "b", "c"},
      {"--versus", "a", ""},
      {"--versus", "a", "--versus", "b"},
      {"--lr", "1", "2"},
      {"--epochs", "3", "--epochs", "4"},
      {"--epochs"},
      {"-e"},
      {},
  };
  for (const auto& arguments : cases) {
    SCOPED_TRACE(arguments.empty() ? "no arguments" : arguments.back());
    EXPECT_EQ(refusal(arguments).kind(), ErrorKind::kUsage);
  }
}

TEST_F(CliTest, LetsTheCommandLineWinOverTheConfigFile) {
  const TestFolder folder;
  const std::string path = folder / "config.json";
  write_file_atomically(path, R"({"epochs": 7, "lr": 0.5, "overwrite": true, "steps": null,
                                  "anchor-sizes": [8, 16], "versus": ["a,b", "c"]})");
  parse({"--config", path.c_str(), "--epochs", "3"});
  EXPECT_EQ(options_.epochs, 3);
  EXPECT_EQ(options_.lr, 0.5);
  EXPECT_TRUE(options_.overwrite);
  EXPECT_THAT(options_.sizes, ElementsAre(8.0, 16.0));
  EXPECT_EQ(options_.steps, std::nullopt);
  EXPECT_THAT(options_.versus, ElementsAre("a,b", "c"));
}

TEST_F(CliTest, RefusesABadConfigFile) {
  const TestFolder folder;
  const std::string path = folder / "config.json";
  EXPECT_EQ(refusal({"--config", path.c_str()}).kind(), ErrorKind::kNoInput);
  write_file_atomically(path, "{\"epochs\": ");
  EXPECT_EQ(refusal({"--config", path.c_str()}).kind(), ErrorKind::kData);
  write_file_atomically(path, "{\"epocs\": 3}");
  EXPECT_THAT(refusal({"--config", path.c_str()}).hint(), HasSubstr("--epochs"));
  write_file_atomically(path, "[1]");
  EXPECT_EQ(refusal({"--config", path.c_str()}).kind(), ErrorKind::kData);
}

TEST_F(CliTest, NamesTheOptionWhoseValueIsEmpty) {
  EXPECT_THAT(refusal({"--output", ""}).what(),
              HasSubstr("--output: bad value (got \"\", want DIR)"));
}

TEST_F(CliTest, NamesTheRangeOfAWholeNumberThatIsTooLarge) {
  EXPECT_THAT(refusal({"--epochs", "2147483648"}).what(),
              HasSubstr("got \"2147483648\", want a whole number from -2147483648 to 2147483647"));
  EXPECT_THAT(refusal({"--steps", "-9223372036854775809"}).what(),
              HasSubstr("from -9223372036854775808 to 9223372036854775807"));
  for (const char* value : {"-1", "18446744073709551616"}) {
    EXPECT_THAT(refusal({"--seed", value}).what(), HasSubstr("from 0 to 18446744073709551615"));
  }
}

TEST_F(CliTest, RefusesConfigFilesThatCannotBeMeant) {
  const TestFolder folder;
  const std::string path = folder / "config.json";
  const auto refused = [&](const std::string& json) {
    write_file_atomically(path, json);
    const Error error = refusal({"--config", path.c_str(), "--lr", "0.5"});
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << json;
    return std::string(error.what());
  };
  for (const char* value : {"\"\"", "[]", "[\"\"]"}) {
    EXPECT_THAT(refused(cat("{\"output\": ", value, "}")), HasSubstr("--output: bad value"));
  }
  for (const char* value : {"\"a\"", "[]", "[\"a\"]", "[\"a\", \"b\", \"c\"]"}) {
    EXPECT_THAT(refused(cat("{\"versus\": ", value, "}")), HasSubstr("--versus: wants two values"));
  }
  EXPECT_THAT(refused(R"({"epochs": 1, "epochs": 2})"), HasSubstr("epochs is given twice"));
  EXPECT_THAT(refused(R"({"epochs": null, "\u0065pochs": 2})"), HasSubstr("epochs is given twice"));
  EXPECT_THAT(refused(R"({"lr": 1, "lr": 2})"), HasSubstr("lr is given twice"));
  for (const char* name : {"help", "version", "config", "check-args"}) {
    for (const char* value : {"true", "false", "null", "\"x\""}) {
      EXPECT_THAT(refused(cat("{\"", name, "\": ", value, "}")),
                  HasSubstr(cat(name, ": is for the command line only")));
    }
  }
}

TEST_F(CliTest, TakesTheLargestNumbersFromAConfigFile) {
  const TestFolder folder;
  const std::string path = folder / "config.json";
  write_file_atomically(path, R"({"seed": 18446744073709551615, "steps": 9223372036854775807})");
  parse({"--config", path.c_str()});
  EXPECT_EQ(options_.seed, 18446744073709551615U);
  EXPECT_EQ(options_.steps, 9223372036854775807);
}

TEST_F(CliTest, EffectiveOptionsReadBackAsAConfigFile) {
  parse({"--epochs", "3", "--output", "a \"b\"", "--anchor-sizes", "16,32.5", "--versus", "a,b",
         "c"});
  std::string json = "{";
  for (const auto& [name, value, may_change] : cli_.effective()) {
    json += (json.size() > 1 ? ", \"" : "\"") + name + "\": " + value;
  }
  const TestFolder folder;
  const std::string path = folder / "config.json";
  write_file_atomically(path, json + "}");

  Options again;
  Cli cli("program", "", "");
  declare(cli, again);
  const std::vector<const char*> arguments = {"program", "--config", path.c_str()};
  cli.parse(static_cast<int>(arguments.size()), arguments.data());
  EXPECT_EQ(again.epochs, 3);
  EXPECT_EQ(again.output, "a \"b\"");
  EXPECT_THAT(again.sizes, ElementsAre(16.0, 32.5));
  EXPECT_EQ(again.shard_size_bytes, options_.shard_size_bytes);
  EXPECT_EQ(again.limit_bytes, std::nullopt);
  EXPECT_EQ(again.versus, options_.versus);
}

TEST_F(CliTest, HelpShowsGroupsOptionsAndDefaults) {
  parse({"--epochs", "3"});
  const std::string help = cli_.help_text();
  for (const auto& name : cli_.option_names()) EXPECT_THAT(help, HasSubstr("--" + name));
  EXPECT_THAT(help, HasSubstr("Training:"));
  EXPECT_THAT(help, HasSubstr("[26]"));
  EXPECT_THAT(help, HasSubstr("[256MiB]"));
  EXPECT_THAT(help, HasSubstr("sgd|adam"));
}

TEST_F(CliTest, HelpBreaksALongChoice) {
  Cli cli("program", "", "");
  std::string word(30, 'a'), target = word;
  Cli::Presets presets;
  for (const char letter : {'b', 'c', 'd', 'e'}) {
    presets.emplace_back(std::string(30, letter), [](const Setter&) {});
  }
  cli.preset("plan", target, presets, "settings");
  std::istringstream lines(cli.help_text());
  std::string whole;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    whole += line.substr(std::min(line.find_first_not_of(' '), line.size()));
  }
  EXPECT_THAT(whole, HasSubstr(cat("none|", std::string(30, 'b'), "|", std::string(30, 'c'))));
}

TEST_F(CliTest, ChecksRunBeforeCheckArgsEnds) {
  int calls = 0;
  cli_.validate([&](const Cli&) { ++calls; });
  EXPECT_EQ(parse({"--epochs", "3", "--check-args"}), CliOutcome::kDone);
  EXPECT_EQ(calls, 1);
}

TEST_F(CliTest, AFailedCheckRefusesTheCommandLine) {
  cli_.validate([](const Cli&) { throw Error(ErrorKind::kConfig, "contradiction"); });
  EXPECT_THROW(parse({"--epochs", "3"}), Error);
}

TEST_F(CliTest, APresetFillsWhatIsNotGiven) {
  parse({"--recipe", "quick", "--lr", "0.25"});
  EXPECT_EQ(options_.epochs, 2);
  EXPECT_EQ(options_.lr, 0.25);
  EXPECT_FALSE(cli_.given(options_.epochs)) << "nobody said it";
}

TEST_F(CliTest, APresetYieldsToAndIsChosenByTheConfigFile) {
  const TestFolder folder;
  const std::string path = folder / "config.json";
  write_file_atomically(path, R"({"recipe": "quick", "epochs": 7})");
  parse({"--config", path.c_str()});
  EXPECT_EQ(options_.epochs, 7);
  EXPECT_EQ(options_.lr, 0.5);
}

// Quotes, --option=VALUE and a config file keep them from the shell.
TEST_F(CliTest, PathsThatNoShellExpandedAreRefused) {
  const auto refused = [](const std::string& value) {
    Options options;
    Cli cli("tool", "tool --output DIR", "makes things");
    declare(cli, options);
    const std::string argument = "--output=" + value;
    const std::array<const char*, 2> words{"tool", argument.c_str()};
    try {
      cli.parse(static_cast<int>(words.size()), words.data());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("--output: no shell has expanded "));
      return true;
    }
    return false;
  };
  for (const char* value :
       {"~", "~/data", "~jane/data", "$DATA", "$DATA/run", "/mnt/${RUN}/out", "/data/$USER/out"}) {
    EXPECT_TRUE(refused(value)) << value;
  }
  for (const char* value : {"./~", "data~", "/mnt/c$/data", "a$1", "b/~/c"}) {
    EXPECT_FALSE(refused(value)) << value;
  }
}

TEST_F(CliTest, APresetMayHaveAnotherDefaultThanNone) {
  parse({"--output", "x"});
  EXPECT_EQ(options_.plan, "auto");
  EXPECT_THAT(refusal({"--plan", "slow"}).what(), HasSubstr("auto|none|long"));
}

TEST_F(CliTest, AutoLeavesAnOptionToTheProgram) {
  parse({"--shares", "auto"});
  EXPECT_FALSE(options_.shares.has_value());
  EXPECT_TRUE(cli_.given(options_.shares));
  EXPECT_THAT(refusal({"--shares", "automatic"}).what(), HasSubstr("want auto or a number"));
  const std::string help = cli_.help_text();
  EXPECT_THAT(help, HasSubstr("--shares LIST|auto"));
  EXPECT_THAT(help, HasSubstr("by level [1,2]"));
  EXPECT_THAT(help, HasSubstr("steps [auto]"));

  Cli other("program", "", "");
  std::optional<int> side;
  other.option_or_auto("side", side, "PX", "in pixels [800]", 0, {});
  EXPECT_THAT(other.help_text(), HasSubstr("in pixels [800]\n")) << "the text says it itself";
}

TEST_F(CliTest, WhatTheDataDecideReachesTheOtherRanks) {
  parse({"--shares", "auto", "--lr", "0.25"});
  cli_.decide(options_.epochs, 5);
  cli_.decide(options_.lr, 7.0);
  cli_.decide(options_.shares, std::vector<double>{1});
  EXPECT_FALSE(options_.shares.has_value()) << "given";
  cli_.reopen(options_.shares);
  cli_.decide(options_.shares, std::vector<double>{3, 1 / 3.0});
  cli_.decide(options_.warmup, std::nullopt);
  EXPECT_FALSE(cli_.given(options_.epochs)) << "nobody said it";

  Options other;
  other.warmup = 9;
  Cli rank("program", "", "");
  declare(rank, other);
  rank.take_decisions(cli_.decisions());
  EXPECT_EQ(other.epochs, 5);
  EXPECT_EQ(options_.lr, 0.25) << "given";
  EXPECT_EQ(other.lr, Options{}.lr) << "not decided";
  EXPECT_EQ(other.shares, options_.shares);
  EXPECT_FALSE(other.warmup.has_value());
}

TEST_F(CliTest, ARunThatContinuesKeepsWhatWasDecided) {
  parse({"--lr", "0.25"});
  const OptionTexts before = {{"epochs", "5"}, {"lr", "7"}};
  EXPECT_TRUE(cli_.decide_as_before(before, options_.epochs, options_.lr));
  EXPECT_FALSE(cli_.decide_as_before(before, options_.shares));
  EXPECT_EQ(options_.epochs, 5);
  EXPECT_EQ(options_.lr, 0.25);
}

TEST_F(CliTest, HelpAsJsonHasEveryRow) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(parse({"--help=json"}), CliOutcome::kDone);
  const std::string text = testing::internal::GetCapturedStdout();
  const JsonFile json = JsonFile::parse(text, "help");
  const JsonView rows = json.root().at("options");
  std::set<std::string> names;
  for (std::size_t i = 0; i < rows.size(); ++i) names.insert(rows.at(i).at("name").as_string());
  for (const std::string& name : cli_.option_names()) EXPECT_TRUE(names.contains(name)) << name;
}

TEST_F(CliTest, CheckArgsPrintsTheReportOfRightOptions) {
  cli_.report_checked([] { return std::string("26 epochs\n"); });
  testing::internal::CaptureStdout();
  parse({"--output", "x", "--check-args"});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "26 epochs\n");
}

TEST_F(CliTest, WithoutAPresetTheDefaultsHold) {
  parse({"--output", "x"});
  EXPECT_EQ(options_.epochs, 26);
  EXPECT_THAT(refusal({"--recipe", "slow"}).what(), HasSubstr("none|quick"));
}

// The rules of rows, wherever a value comes from.
struct Rules : testing::Test {
  void TestBody() override {}
  enum Mode : unsigned { kPaint = 1, kDraw = 2 };
  Rules() {
    cli.option("count", count, "N", "", {.least = 1, .most = 10});
    cli.option("share", share, "X", "", {.above = 0, .below = 1});
    cli.option("sides", sides, "N,N", "", {.least = 8});
    cli.option("sides-edge", edge, "N", "", {.least = 0, .most = 5, .part_of = "sides"});
    cli.bytes("room", room, "", {.most = 1024});
    cli.option("colour", colour, "NAME", "", {.modes = kPaint});
    cli.choice("brush", brush, plain_choices({"round", "flat"}), "", {.modes = kPaint});
    cli.option("width", width, "N", "", {.needs = "brush=flat"});
    cli.option("depth", depth, "N", "", {.needs = "width"});
    cli.option("grain", grain, "N", "", {.least = 0, .file_only = true});
    cli.validate([this](const Cli& given) { given.check_mode(mode, "--task draw"); });
  }
  void parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "paint");
    cli.parse(static_cast<int>(arguments.size()), arguments.data());
  }
  std::string refusal(std::vector<const char*> arguments) {
    return refusal_of(ErrorKind::kUsage, [&] { parse(std::move(arguments)); });
  }
  unsigned mode = kPaint;
  int count = 1, width = 2, depth = 3, grain = 4, edge = 0;
  double share = 0.5;
  std::vector<std::int64_t> sides{};
  std::uint64_t room = 0;
  std::string colour{}, brush = "round";
  Cli cli{"paint", "", ""};
};

TEST_F(Rules, ARangeIsCheckedWithTheDigitsThatWereGiven) {
  EXPECT_EQ(refusal({"--count", "11"}), "--count: bad value (got \"11\", want 1 to 10)");
}
TEST_F(Rules, BoundsMayBeOutsideOfTheRange) {
  EXPECT_EQ(refusal({"--share", "1.00"}),
            "--share: bad value (got \"1.00\", want above 0 to below 1)");
}
TEST_F(Rules, EachOfSeveralNumbersIsInTheRange) {
  EXPECT_EQ(refusal({"--sides", "9,7"}), "--sides: bad value (got \"9,7\", want at least 8)");
}
TEST_F(Rules, SizesHaveRangesToo) {
  EXPECT_THAT(refusal({"--room", "1MiB"}), HasSubstr("got \"1MiB\""));
}
TEST_F(Rules, AnOptionOfAnotherModeIsRefused) {
  mode = kDraw;
  EXPECT_EQ(refusal({"--colour", "red", "--brush", "flat"}),
            "--colour, --brush: have no effect with --task draw");
}
TEST_F(Rules, AnOptionWithoutWhatItNeedsIsRefused) {
  EXPECT_EQ(refusal({"--width", "5"}), "--width: has no effect with --brush round");
}
TEST_F(Rules, WhatIsNeededMayBeAnyValue) {
  EXPECT_EQ(refusal({"--depth", "5"}), "--depth: has no effect without --width");
}
TEST_F(Rules, WhatIsAsByDefaultIsNeverRefused) {
  mode = kDraw;
  EXPECT_NO_THROW(parse({"--width", "2", "--brush", "round"}));
}
TEST_F(Rules, AValueOfFilesIsNoOptionOfTheCommandLine) {
  EXPECT_THAT(refusal({"--grain", "5"}), HasSubstr("for recipes and --config FILE.json only"));
  EXPECT_THAT(cli.help_text(), Not(HasSubstr("grain")));
}
TEST_F(Rules, PartsStandBehindTheValueOrAlone) {
  parse({"--sides", "9,edge=2,10"});
  EXPECT_THAT(sides, ElementsAre(9, 10));
  EXPECT_EQ(edge, 2);
  EXPECT_THAT(cli.help_text(), HasSubstr(",edge=N"));
}
TEST_F(Rules, APartAloneLeavesTheValue) {
  parse({"--sides", "edge=3"});
  EXPECT_THAT(sides, testing::IsEmpty());
  EXPECT_EQ(edge, 3);
}
TEST_F(Rules, APartIsNoOptionOfItsOwn) {
  EXPECT_EQ(refusal({"--sides-edge", "3"}), "--sides-edge: is a part of --sides");
}
TEST_F(Rules, APartHasItsRange) {
  EXPECT_EQ(refusal({"--sides", "9,edge=7"}), "--sides edge: bad value (got \"7\", want 0 to 5)");
}
TEST_F(Rules, APartOfTheCommandLineWinsOverTheFiles) {
  const TestFolder folder;
  const std::string path = folder / "config.json";
  for (const char* const text :
       {R"({"sides": "9,edge=1"})", R"({"sides": [9], "sides-edge": 1})"}) {
    write_file_atomically(path, text);
    Rules one;
    one.parse({"--sides", "edge=4", "--config", path.c_str()});
    EXPECT_EQ(one.edge, 4) << text;
    EXPECT_THAT(one.sides, ElementsAre(9)) << text;
  }
}
TEST_F(Rules, APartIsGivenOnce) {
  EXPECT_EQ(refusal({"--sides", "edge=1", "--sides", "9,edge=2"}), "--sides edge is given twice");
}
TEST_F(Rules, APartIsGivenOnceInAValue) {
  EXPECT_EQ(refusal({"--sides", "9,edge=1,edge=2"}), "--sides edge is given twice");
}
TEST_F(Rules, APartAfterNothingIsAPartAlone) {
  parse({"--sides", ",edge=2"});
  EXPECT_EQ(edge, 2);
}
TEST_F(Rules, PartsFollowTheirOptionInHelp) {
  const std::string help = cli.help_text();
  EXPECT_LT(help.find(",edge=N"), help.find("--room"));
}
TEST_F(Rules, DecidedValuesAreChecked) {
  parse({"--count", "2"});
  cli.decide(width, 7);
  EXPECT_THROW(cli.check(), Error) << "without what it needs";
}

// Other tools' names of options and of values.
std::string foreign_answer(const char* option, const char* value) {
  int side = 1;
  std::string colour, brush = "round";
  Cli cli("paint", "", "");
  cli.option("side", side, "PX", "", {.foreign = "img-size", .remark = "in pixels"});
  cli.option("colour", colour, "NAME", "");
  cli.choice("brush", brush, plain_choices({"round", "flat"}), "");
  cli.foreign("mosaic", "images are not mixed");
  cli.foreign("hue brush=fan", "--colour NAME,hue=H");
  const std::array<const char*, 3> words = {"paint", option, value};
  try {
    cli.parse(static_cast<int>(words.size()), words.data());
  } catch (const Error& error) {
    return cat(error.what(), "; ", error.hint());
  }
  return "";
}

TEST(ForeignNames, AreAnsweredWithOurs) {
  EXPECT_THAT(foreign_answer("--Img_Size", "3"), HasSubstr("here it is --side in pixels"));
  EXPECT_THAT(foreign_answer("--mosaic", "1"), HasSubstr("--mosaic: images are not mixed"));
  EXPECT_THAT(foreign_answer("--img-size=3", "--mosaic"), HasSubstr("here it is --side in pixels"));
  EXPECT_THAT(foreign_answer("--hue", "1"), HasSubstr("here it is --colour NAME,hue=H"));
  EXPECT_THAT(foreign_answer("--brush", "fan"), HasSubstr("here it is --colour NAME,hue=H"));
}

TEST(ForeignNames, GiveWayToTheNearestOfOurs) {
  EXPECT_THAT(foreign_answer("--sdie", "3"), HasSubstr("did you mean --side?"));
  EXPECT_THAT(foreign_answer("--zzzzzzzzzzzz", "3"), HasSubstr("run paint --help"));
}

}  // namespace
}  // namespace retina
