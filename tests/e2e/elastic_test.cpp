// A run that goes on with ever fewer ranks trains each image exactly once an epoch and ends where
// an undisturbed one does.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <regex>
#include <sstream>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/checkpoint/checkpoint.h"
#include "tests/e2e/job.h"
#include "tests/e2e/weights.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

constexpr std::size_t kImages = 12;
constexpr int kEpochSteps = 3, kSteps = 6 * kEpochSteps;

using StepImages = std::map<int, std::vector<int>>;  // by step

// Every rank writes its log to a file of its own, LOG.RANK, where a killed one loses nothing.
std::vector<std::string> launch(const Job& job, const std::string& run, int ranks,
                                const std::string& log) {
  std::vector<std::string> train =
      job.train_command(run, kSteps, {"--checkpoint-every", "1steps", "--log-level", "debug"});
  set_value(train, "--lr", "0.0001");
  set_value(train, "--images-per-step", "4");
  std::string line = "exec '" RETINA_BIN_DIR "/retina-train'";
  for (std::size_t i = 1; i < train.size(); ++i) {
    line += cat(" '", train[i], "'");
  }
  return under_mpirun(ranks, {"/bin/sh", "-c", cat(line, " 2>>'", log, "'.$OMPI_COMM_WORLD_RANK")});
}

// The images that each step of one launch was trained with, over its ranks.
StepImages images_of(const std::string& log, int ranks) {
  const std::regex line(R"(debug: step ([0-9]+): trains on (.*)$)");
  const std::regex image(R"(\(image ([0-9]+)\))");
  StepImages steps;
  for (int rank = 0; rank < ranks; ++rank) {
    std::istringstream text(read_file(cat(log, ".", rank)));
    for (std::string words; std::getline(text, words);) {
      std::smatch match;
      if (!std::regex_search(words, match, line)) continue;
      const std::string names = match[2].str();
      for (std::sregex_iterator one(names.begin(), names.end(), image), end; one != end; ++one) {
        steps[std::stoi(match[1].str())].push_back(std::stoi((*one)[1].str()));
      }
    }
  }
  return steps;
}

// Process ids of the ranks that write into `run`.
std::vector<pid_t> ranks_of(const std::string& run) {
  std::vector<pid_t> found;
  for (const auto& item : std::filesystem::directory_iterator("/proc")) {
    const std::string name = item.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(item.path() / "cmdline");
    const std::string words((std::istreambuf_iterator<char>(file)), {});
    if (words.starts_with(RETINA_BIN_DIR "/retina-train") && words.find(run) != std::string::npos) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

TEST(Elastic, FourThenThreeThenTwoRanksTrainEachImageOnceAnEpoch) {
  const Job job(Task::kClassification);
  const std::string calm = job / "calm", disturbed = job / "disturbed";
  const ProcessResult whole = run_process(launch(job, calm, 4, job / "calm.log"));
  ASSERT_EQ(whole.exit_code, 0) << whole.err << read_file(job / "calm.log.0");

  const unsigned seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE(cat("seed ", seed));
  std::mt19937 generator(seed);
  StepImages trained;  // a step that was made twice counts as it was made last
  for (const int ranks : {4, 3, 2}) {
    const std::string log = job / cat("log", ranks);
    ChildProcess child(launch(job, disturbed, ranks, log));
    if (ranks > 2) {
      const auto done = steps_logged(disturbed);
      const auto step = std::uniform_int_distribution<std::int64_t>(done + 1, done + 4)(generator);
      ASSERT_TRUE(child.run_until([&] { return steps_logged(disturbed) >= step; }, 120));
    }
    if (ranks == 4) {
      const auto victims = ranks_of(disturbed);
      ASSERT_EQ(victims.size(), 4U);
      ::kill(victims[std::uniform_int_distribution<std::size_t>(0, 3)(generator)], SIGKILL);
    } else if (ranks == 3) {
      child.signal(SIGTERM);  // mpirun passes it on
    }
    const ProcessResult result = child.wait();
    const std::string words = cat(result.err, read_file(log + ".0"));
    if (ranks == 2) {
      ASSERT_EQ(result.exit_code, 0) << words;
    }
    for (const auto& [step, images] : images_of(log, ranks)) trained[step] = images;
  }

  ASSERT_EQ(trained.size(), static_cast<std::size_t>(kSteps));
  for (int epoch = 0; epoch < kSteps / kEpochSteps; ++epoch) {
    std::map<int, int> visits;
    for (int step = 1; step <= kEpochSteps; ++step) {
      for (const int image : trained[kEpochSteps * epoch + step]) ++visits[image];
    }
    EXPECT_EQ(visits.size(), kImages) << "epoch " << epoch + 1;
    for (const auto& [image, count] : visits) {
      EXPECT_EQ(count, 1) << "epoch " << epoch + 1 << ", image " << image;
    }
  }
  const auto ours = load_checkpoint(last_checkpoint(disturbed)).model;
  const auto theirs = load_checkpoint(last_checkpoint(calm)).model;
  ASSERT_EQ(ours.size(), theirs.size());
  const double difference = relative_difference(ours, theirs);
  RecordProperty("relative_difference", cat(difference));
  EXPECT_LE(difference, 1e-5);
  EXPECT_GT(difference, 0) << "other ranks, other additions: equal bits would be one run twice";
}

TEST(Elastic, ARankMayHaveAPassWithoutImagesButNotAStep) {
  const Job job(Task::kClassification);
  auto command = job.train_command(job / "run", 1, {"--micro-batch", "1"});
  const ProcessResult accepted = run_process(under_mpirun(3, command));
  EXPECT_EQ(accepted.exit_code, 0) << accepted.err;
  EXPECT_EQ(steps_logged(job / "run"), 1);

  set_value(command, "--images-per-step", "2");
  const ProcessResult refused = run_process(under_mpirun(3, command));
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_NE(refused.err.find("too few for 3 ranks"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace retina
