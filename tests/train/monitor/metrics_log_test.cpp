#include "train/monitor/metrics_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

StepMetrics step_metrics(std::int64_t step) {
  return {.step = step,
          .epoch = 1,
          .values = {0.1 * static_cast<double>(step), 0.2},
          .learning_rate = 1e-4,
          .memory_bytes = 77};
}

std::size_t step_count(const std::string& path, std::int64_t step) {
  const MetricsLog log(path, step);
  return log.steps().empty() ? 0 : log.steps().at("step").size();
}

TEST(MetricsLog, IsCutToTheStepThatTrainingContinuesFrom) {
  const TestFolder folder;
  {
    MetricsLog log(folder / "m", 0);
    for (std::int64_t step = 1; step <= 5; ++step) log.append(step_metrics(step));
  }
  {
    MetricsLog log(folder / "m", 3);
    EXPECT_EQ(log.steps().at("step"), (std::vector<double>{1, 2, 3}));
    EXPECT_EQ(log.steps().at("classification_loss")[0], 0.1);
    EXPECT_EQ(log.steps().at("memory"), (std::vector<double>{77, 77, 77}));
    log.append(step_metrics(4));
  }
  EXPECT_EQ(step_count(folder / "m", 100), 4U);
}

TEST(MetricsLog, HasEachChangeOfLengthOnce) {
  const TestFolder folder;
  const LengthChange change{.step = 1, .total_steps = 9, .total_steps_before = 5};
  for (int i = 0; i < 2; ++i) {  // the job was killed before its next checkpoint
    MetricsLog log(folder / "m", 1);
    if (i == 0) log.append(step_metrics(1));
    log.append(change);
    log.append(step_metrics(2));
  }
  const MetricsLog log(folder / "m", 2);
  EXPECT_EQ(log.length_changes(), (std::vector<LengthChange>{change}));
  EXPECT_EQ(log.steps().at("step").size(), 2U);
  EXPECT_TRUE(MetricsLog(folder / "m", 0).length_changes().empty());
}

TEST(MetricsLog, DropsALineThatWasCutInHalf) {
  const TestFolder folder;
  { MetricsLog(folder / "m", 0).append(step_metrics(1)); }
  std::ofstream(folder / "m", std::ios::app) << "{\"step\":2,\"ep";
  EXPECT_EQ(step_count(folder / "m", 10), 1U);
  EXPECT_EQ(read_file(folder / "m").back(), '\n');
}

TEST(MetricsLog, CutsFromAHoleRightBehindAStep) {
  const TestFolder folder;
  {
    MetricsLog log(folder / "m", 0);
    for (std::int64_t step = 1; step <= 3; ++step) log.append(step_metrics(step));
  }
  std::string text = read_file(folder / "m");
  const std::size_t end = text.find('\n', text.find('\n') + 1);
  text.replace(end, 30, 30, '\0');  // the parser takes a zero for the end of its text
  write_file_atomically(folder / "m", text);
  EXPECT_EQ(step_count(folder / "m", 10), 1U);
  EXPECT_EQ(read_file(folder / "m").find('\0'), std::string::npos);
}

TEST(MetricsLog, HasNoNumberWhereItIsNotFiniteOrMissing) {
  const TestFolder folder;
  StepMetrics bad = step_metrics(1);
  bad.gradient_norm = std::nan("");
  StepMetrics scaled = step_metrics(2);
  scaled.loss_scale = 65536;
  {
    MetricsLog log(folder / "m", 0);
    log.append(bad);
    EXPECT_EQ(read_file(folder / "m").find("loss_scale"), std::string::npos);
    log.append(scaled);
    log.append(step_metrics(3));
    log.append(ValidationMetrics{.values = std::vector<double>(12, 0),
                                 .losses = TaskMetrics{std::nan(""), 1, 0}});
  }
  const MetricsLog log(folder / "m", 3);
  EXPECT_TRUE(std::isnan(log.steps().at("grad_norm")[0]));
  EXPECT_EQ(log.steps().at("grad_norm")[1], 0);
  const std::vector<double>& scales = log.steps().at("loss_scale");
  ASSERT_EQ(scales.size(), 3U);
  EXPECT_TRUE(std::isnan(scales[0]) && scales[1] == 65536 && std::isnan(scales[2]));
  EXPECT_TRUE(std::isnan(log.validations().at("classification_loss")[0]));
  EXPECT_EQ(log.validations().at("box_loss")[0], 1);
}

TEST(MetricsLog, KeepsWhatTheGradientsSumCost) {
  const TestFolder folder;
  StepMetrics metrics = step_metrics(1);
  metrics.images = 7;
  metrics.ranks = 4;
  metrics.step_ms = 100;
  metrics.data_wait_ms = 10;
  metrics.exposed_comm_ms = 20;
  metrics.reduce = {.traffic = {.calls = 2, .bytes = 4000000, .seconds = 0.5},
                    .overlap_seconds = 0.25};
  metrics.parts = {
      .upload_ms = 1, .forward_ms = 20, .loss_ms = 3, .backward_ms = 40, .update_ms = 5};
  { MetricsLog(folder / "m", 0).append(metrics); }
  const JsonFile line = JsonFile::read(folder / "m");
  EXPECT_EQ(line.root().at("compute_ms").as_double(), 70);
  EXPECT_EQ(line.root().at("comm_ms").as_double(), 500);
  EXPECT_EQ(line.root().at("algorithm_bytes_per_second").as_double(), 8e6);
  EXPECT_EQ(line.root().at("bus_bytes_per_second").as_double(), 12e6);  // 2 * 3 / 4 times
  EXPECT_EQ(line.root().at("overlap_ms").as_double(), 250);
  EXPECT_EQ(line.root().at("backward_ms").as_double(), 40);
  EXPECT_EQ(line.root().at("images").as_int(), 7);
}

std::map<std::string, double> by_key(const Scalars& scalars) {
  std::map<std::string, double> values;
  for (const auto& [tag, value] : scalars) {
    const std::string key = tag.substr(tag.find('/') + 1);
    EXPECT_TRUE(values.emplace(key == "learning_rate" ? "lr" : key, value).second) << key;
  }
  return values;
}

TEST(EventScalars, AreTheNumbersOfAStepsLine) {
  const TestFolder folder;
  StepMetrics metrics = step_metrics(3);
  metrics.ranks = 4;
  metrics.step_ms = 0.1;
  metrics.reduce.traffic = {.calls = 1, .bytes = 7, .seconds = 0.3};
  for (const Task task : {Task::kDetection, Task::kClassification}) {
    metrics.task = task;
    remove_file(folder / "m");
    { MetricsLog(folder / "m", 0).append(metrics); }
    std::map<std::string, double> scalars = by_key(event_scalars(metrics));
    const JsonFile line = JsonFile::read(folder / "m");
    for (const auto& member : line.root().raw().GetObject()) {
      const std::string key = member.name.GetString();
      if (key == "step") continue;
      ASSERT_TRUE(scalars.contains(key)) << key;
      EXPECT_EQ(scalars.at(key), member.value.GetDouble()) << key;
      scalars.erase(key);
    }
    EXPECT_TRUE(scalars.empty()) << scalars.begin()->first;
  }
}

TEST(EventScalars, AreAllFiguresOfAValidation) {
  const ValidationMetrics detector{.values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -1}};
  const std::map<std::string, double> coco = by_key(event_scalars(detector));
  EXPECT_EQ(coco.size(), 15U);
  EXPECT_EQ(coco.at("AP"), 0);
  EXPECT_EQ(coco.at("AR100"), 8);
  EXPECT_EQ(coco.at("AR_large"), -1);
  ValidationMetrics on_tiles = detector;
  on_tiles.count_best = 10'000;
  EXPECT_EQ(by_key(event_scalars(on_tiles)).at("AR10000"), 8);
  const TestFolder folder;
  { MetricsLog(folder / "m", 0).append(on_tiles); }
  EXPECT_EQ(JsonFile::read(folder / "m").root().at("validation").at("count_best").as_int(), 10'000);
  const ValidationMetrics classifier{.task = Task::kClassification, .values = {0.5, 0.75, 2}};
  EXPECT_EQ(by_key(event_scalars(classifier)),
            (std::map<std::string, double>{
                {"top1", 0.5}, {"top5", 0.75}, {"loss", 2}, {"cross_entropy", 0}}));
}

// A classifier's "loss" is without label smoothing, "cross_entropy" what training has.
TEST(EventScalars, HaveTheLossesOfAValidationAsItsLineHas) {
  const TestFolder folder;
  const ValidationMetrics detector{.task = Task::kDetection,
                                   .values = std::vector<double>(12, 0.5),
                                   .losses = TaskMetrics{0.25, 0.5, 0}};
  const ValidationMetrics classifier{
      .task = Task::kClassification, .values = {0.5, 0.75, 2}, .losses = TaskMetrics{3, 0.5, 1}};
  using Losses = std::map<std::string, double>;
  for (const auto& [metrics, wanted] :
       {std::pair{detector,
                  Losses{{"loss", 0.75}, {"classification_loss", 0.25}, {"box_loss", 0.5}}},
        {classifier, Losses{{"loss", 2}, {"cross_entropy", 3}}}}) {
    remove_file(folder / "m");
    { MetricsLog(folder / "m", 0).append(metrics); }
    const JsonFile line = JsonFile::read(folder / "m");
    const std::map<std::string, double> scalars = by_key(event_scalars(metrics));
    EXPECT_EQ(scalars.size(), metrics.task == Task::kDetection ? 12U + 3 : 3U + 1);
    for (const auto& [key, value] : wanted) {
      EXPECT_EQ(line.root().at("validation").at(key.c_str()).as_double(), value) << key;
      EXPECT_EQ(scalars.at(key), value) << key;
    }
  }
}

TEST(MetricsLog, AddsUpAnEpochOverAContinuation) {
  const TestFolder folder;
  const auto step = [](std::int64_t number, std::int64_t epoch, double step_ms) {
    StepMetrics metrics = step_metrics(number);
    metrics.epoch = epoch;
    metrics.step_ms = step_ms;
    metrics.images = 3;
    return metrics;
  };
  {
    MetricsLog log(folder / "m", 0);
    log.append(step(1, 1, 9000));
    log.append(step(2, 2, 500));
    log.append(EpochMetrics{.step = 2, .epoch = 2, .step_count = 2}, 0);
  }
  {
    MetricsLog log(folder / "m", 2);
    log.append(step(3, 2, 250));
    EpochMetrics metrics{.step = 3, .epoch = 2, .step_count = 1};
    metrics.rank_times = {{.rank = 0, .node = "node-a", .images = 6, .compute = {1, 2}},
                          {.rank = 1, .node = "node-b", .data_wait = {3, 4}, .comm_wait = {5, 6}}};
    log.append(metrics, 2);
  }
  const MetricsLog log(folder / "m", 3);
  ASSERT_EQ(log.epochs().size(), 2U);
  EXPECT_FALSE(log.epochs()[0].epoch_seconds.has_value());
  const EpochMetrics& epoch = log.epochs()[1];
  EXPECT_EQ(epoch.epoch_seconds, 0.75);
  EXPECT_EQ(epoch.images_per_epoch, 6);
  EXPECT_EQ(epoch.step_count, 1);
  ASSERT_EQ(epoch.rank_times.size(), 2U);
  EXPECT_EQ(epoch.rank_times[0].images, 6);
  EXPECT_EQ(epoch.rank_times[0].compute.sum_ms, 2);
  EXPECT_EQ(epoch.rank_times[1].node, "node-b");
  EXPECT_EQ(epoch.rank_times[1].comm_wait.median_ms, 5);
}

// A run that began within the epoch has no lines of its first steps.
TEST(MetricsLog, TellsNoLengthOfAnEpochOfWhichAStepIsMissing) {
  const TestFolder folder;
  MetricsLog log(folder / "m", 0);
  log.append(step_metrics(2));
  log.append(step_metrics(3));
  log.append(EpochMetrics{.step = 3, .epoch = 1}, 3);
  EXPECT_FALSE(log.epochs().back().epoch_seconds);
  EXPECT_EQ(log.epochs().back().images_per_epoch, 0);
  log.append(EpochMetrics{.step = 3, .epoch = 1}, 2);  // the first was skipped
  EXPECT_TRUE(log.epochs().back().epoch_seconds);
  log.append(EpochMetrics{.step = 3, .epoch = 2}, 0);
  EXPECT_FALSE(log.epochs().back().epoch_seconds);
}

}  // namespace
}  // namespace retina
