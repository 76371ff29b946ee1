// --train A --train B: trained on as one set that has the records of A, then those of B.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/coco/instances.h"
#include "shared/numeric/random.h"
#include "shared/shard/shard_set.h"
#include "tests/e2e/job.h"
#include "tests/e2e/weights.h"
#include "tests/support/child_process.h"
#include "tests/support/scenes/data_set.h"

namespace retina {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

// What a set was packed from, and its images' folder below that of all images.
struct Source {
  Instances instances{};
  std::string folder{};
};

void add(const Source& source, const std::string& file_name, std::size_t place, Instances& joined) {
  const Instances& from = source.instances;
  const auto image = std::find_if(from.images.begin(), from.images.end(),
                                  [&](const ImageInfo& one) { return one.file_name == file_name; });
  ASSERT_NE(image, from.images.end()) << file_name;
  joined.images[place] = *image;
  joined.images[place].id = static_cast<std::int64_t>(place) + 1;
  joined.images[place].file_name = cat(source.folder, "/", file_name);
  std::map<std::int64_t, std::string> names;
  for (const Category& category : from.categories) names[category.id] = category.name;
  for (Annotation annotation : from.annotations) {
    if (annotation.image_id != image->id) continue;
    const auto category = std::find_if(
        joined.categories.begin(), joined.categories.end(),
        [&](const Category& one) { return one.name == names[annotation.category_id]; });
    ASSERT_NE(category, joined.categories.end());
    annotation.id = static_cast<std::int64_t>(joined.annotations.size()) + 1;
    annotation.image_id = joined.images[place].id;
    annotation.category_id = category->id;
    joined.annotations.push_back(annotation);
  }
}

class SeveralSets : public testing::Test {
 protected:
  SeveralSets() {
    scenes::write_data_set(
        {.output = scenes_, .train_count = 8, .validation_count = 6, .intact = true});
    first_ = {read_instances(scenes_ + "/annotations/instances_train2017.json"), "train2017"};
    second_ = {read_instances(scenes_ + "/annotations/instances_val2017.json"), "val2017"};
    // The ids of the first set again, for other images; the classes in the other order.
    std::map<std::int64_t, std::int64_t> ids;
    for (std::size_t i = 0; i < second_.instances.images.size(); ++i) {
      ImageInfo& image = second_.instances.images[i];
      ids[image.id] = first_.instances.images[i].id;
      image.id = ids[image.id];
    }
    for (Category& category : second_.instances.categories) category.id = 1000 - category.id;
    for (std::size_t i = 0; i < second_.instances.annotations.size(); ++i) {
      Annotation& annotation = second_.instances.annotations[i];
      annotation.id = first_.instances.annotations[0].id + static_cast<std::int64_t>(i);
      annotation.image_id = ids[annotation.image_id];
      annotation.category_id = 1000 - annotation.category_id;
    }
    a_ = pack("a", first_.instances, "/train2017");
    b_ = pack("b", second_.instances, "/val2017");
  }

  std::string pack(const std::string& name, const Instances& instances,
                   const std::string& images = "") const {
    const std::string annotations = folder_ / (name + ".json"), shards = folder_ / name;
    write_file_atomically(annotations, instances_to_json(instances));
    const ProcessResult packed = run_process({"coco-pack", "--annotations", annotations, "--images",
                                              cat(scenes_, "/images", images), "--output", shards});
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
    return shards;
  }

  // One set that coco-pack writes with the records of `a_`, then those of `b_`. It shuffles what
  // its file lists: the list is shuffled the other way before.
  std::string pack_joined() const {
    std::vector<std::pair<const Source*, std::string>> records;
    for (const auto& [source, shards] : {std::pair{&first_, a_}, std::pair{&second_, b_}}) {
      const ShardSet set(shards);
      for (const IndexEntry& entry : set.index()) records.emplace_back(source, entry.file_name);
    }
    Instances joined{.categories = first_.instances.categories};
    joined.images.resize(records.size());
    const auto order =
        permutation(records.size(), {.seed = 0, .use = RandomUse::kShuffle, .stream = 0});
    for (std::size_t record = 0; record < records.size(); ++record) {
      add(*records[record].first, records[record].second, order[record], joined);
    }
    std::string shards = pack("joined", joined);
    const ShardSet set(shards);
    EXPECT_EQ(set.index().size(), records.size());
    for (std::size_t record = 0; record < records.size(); ++record) {
      EXPECT_EQ(set.index()[record].file_name,
                cat(records[record].first->folder, "/", records[record].second));
    }
    return shards;
  }

  // On both sets, `shards` standing in for the first --train's value.
  Words command(const Words& shards, const std::string& run, int steps,
                const Words& more = {}) const {
    Words words = small_train_command(shards[0], folder_ / run, steps, more);
    for (std::size_t i = 1; i < shards.size(); ++i) {
      words.insert(words.end(), {"--train", shards[i]});
    }
    return words;
  }

  void expect_refusal(const ProcessResult& result, int code, const Words& parts) const {
    EXPECT_EQ(result.exit_code, code) << result.err;
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }

  const TestFolder folder_;
  const std::string scenes_ = folder_ / "scenes";
  Source first_, second_;
  std::string a_, b_;
};

// What each step learnt from: its losses and gradient, to the last digit.
Words learnt(const std::string& run) {
  Words steps;
  for (const JsonFile& json : metric_lines(run, "step_ms")) {
    std::string text = cat(json.root().at("step").as_int());
    for (const char* key : {"classification_loss", "box_loss", "grad_norm"}) {
      text += cat(" ", shortest(json.root().at(key).as_double()));
    }
    steps.push_back(text);
  }
  return steps;
}

// Three epochs of 14 images, every image changed at random, images of rare classes more often;
// stopped after 5 steps and continued from copies of the shards.
TEST_F(SeveralSets, LearnTheSameBitsAsOneSetWithTheirRecords) {
  const Words options = {"--augment", "light", "--sampler", "class-balanced,repeat-threshold=0.9",
                         "--ema",     "0.9"};
  constexpr int kSteps = 12;
  const std::string joined = pack_joined();
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(cat(ranks, " ranks"));
    const auto train = [&](const Words& words) { return run_on(ranks, words); };
    const std::string one = cat("one-", ranks), several = cat("several-", ranks);
    const ProcessResult whole = train(command({joined}, one, kSteps, options));
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    const ProcessResult begun = train(command({a_, b_}, several, 5, options));
    ASSERT_EQ(begun.exit_code, 0) << begun.err;
    EXPECT_THAT(begun.err, HasSubstr("training on 14 images of 2 sets"));
    Words copying = options;
    copying.insert(copying.end(), {"--scratch", folder_ / "scratch", "--stage", "always"});
    const ProcessResult continued = train(command({a_, b_}, several, kSteps, copying));
    ASSERT_EQ(continued.exit_code, 0) << continued.err;
    for (const std::string& set : ranks == 1 ? Words{a_, b_} : Words{a_}) {  // rank 0's own part
      EXPECT_THAT(continued.err, HasSubstr(set + " is slow, as --stage always says: 1 shard"));
    }
    EXPECT_EQ(learnt(folder_ / several), learnt(folder_ / one));
    ASSERT_EQ(learnt(folder_ / one).size(), static_cast<std::size_t>(kSteps));
    const Checkpoint left = load_checkpoint(last_checkpoint(folder_ / several));
    const Checkpoint right = load_checkpoint(last_checkpoint(folder_ / one));
    expect_same_bits(left.model, right.model);
    expect_same_bits(left.optimizer, right.optimizer);
  }
}

TEST_F(SeveralSets, AreKnownByTheirContentsInTheirOrder) {
  const std::string run = folder_ / "run";
  ASSERT_EQ(run_process(command({a_, b_}, "run", 1)).exit_code, 0);
  for (const Words& others : {Words{a_}, Words{b_, a_}, Words{a_, b_, b_}}) {
    expect_refusal(run_process(command(others, "run", 2)), 78,
                   {"holds a run of another configuration: the contents of --train (was "});
  }
  const ProcessResult resumed =
      run_process(command({a_}, "other", 2, {"--resume", last_checkpoint(run)}));
  expect_refusal(resumed, 78, {"its run had other settings: the contents of --train (was "});
  // The same sets elsewhere, given in other ways.
  std::filesystem::rename(b_, folder_ / "moved");
  Words words = small_train_command(a_, run, 2);
  words.insert(words.begin() + 3, folder_ / "moved");  // --train A B
  const ProcessResult continued = run_process(words);
  EXPECT_EQ(continued.exit_code, 0) << continued.err;
  EXPECT_EQ(steps_logged(run), 2);
}

TEST_F(SeveralSets, MayComeFromAConfigFileAndStandInTheRunsFolder) {
  const std::string list = cat("[\"", a_, "\",\"", b_, "\"]"), file = folder_ / "options.json";
  write_file_atomically(file, cat("{\"train\": ", list, "}"));
  Words words = command({a_}, "run", 1);
  words.erase(words.begin() + 1, words.begin() + 3);  // --train A
  words.insert(words.end(), {"--config", file});
  Words checked = words;
  checked.push_back("--check-args");
  EXPECT_EQ(run_process(checked).exit_code, 0);
  EXPECT_FALSE(path_exists(folder_ / "run"));
  const ProcessResult trained = run_process(words);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const ProcessResult again = run_process(command({a_, b_}, "run", 1));
  EXPECT_THAT(again.out, HasSubstr("already finished")) << again.err;

  const auto train_of = [](const JsonView& options) {
    Words folders;
    const JsonView train = options.at("train");
    if (!train.raw().IsArray()) return Words{train.as_string()};
    for (std::size_t i = 0; i < train.size(); ++i) folders.push_back(train.at(i).as_string());
    return folders;
  };
  const JsonFile config = JsonFile::read(folder_ / "run/config.json");
  EXPECT_EQ(train_of(config.root().at("options")), Words({a_, b_}));
  const Checkpoint checkpoint = load_checkpoint(last_checkpoint(folder_ / "run"));
  const JsonFile stored = JsonFile::parse(checkpoint.config_json, "config");
  EXPECT_EQ(train_of(stored.root().at("train")), Words({a_, b_}));
  // One set stands there as it always has.
  ASSERT_EQ(run_process(command({a_}, "one", 1)).exit_code, 0);
  EXPECT_THAT(load_checkpoint(last_checkpoint(folder_ / "one")).config_json,
              HasSubstr(cat("\"train\":\"", a_, "\"")));
}

TEST_F(SeveralSets, ValidationImagesThatAreTrainedOnAreToldAndApIsGivenWithoutThem) {
  const ProcessResult result =
      run_process(command({a_}, "run", 1, {"--validation", pack_joined()}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("8 of 14 images are also trained on, byte for byte (first: "));
  EXPECT_THAT(result.err, HasSubstr("AP without the 8 images that training has, too: 0."));
  const ProcessResult apart = run_process(command({a_}, "apart", 1, {"--validation", b_}));
  EXPECT_EQ(apart.err.find("byte for byte"), std::string::npos) << apart.err;
  EXPECT_EQ(apart.err.find("AP without"), std::string::npos) << apart.err;
}

TEST_F(SeveralSets, ValidationWithoutABoxIsToldAndJudgesNothing) {
  Instances without = first_.instances;
  without.annotations.clear();
  const std::string empty = pack("empty", without, "/train2017");
  const ProcessResult told = run_process(command({a_}, "run", 1, {"--validation", empty}));
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_THAT(told.err, HasSubstr(cat("--validation ", empty, ": no image has a box")));
  for (const Words& judge : {Words{"--stop-at-ap", "0.5"}, Words{"--early-stop", "2"}}) {
    Words words = command({a_}, "judged", 1, {"--validation", empty});
    words.insert(words.end(), judge.begin(), judge.end());
    expect_refusal(run_process(words), 78,
                   {cat(judge[0], ": no image of ", empty, " has a box to judge by")});
  }
  expect_refusal(run_process(command({empty}, "unlabelled", 1)), 65,
                 {cat(empty, ": no image has a box to train on")});
}

TEST_F(SeveralSets, OfTilesAndOfWholeImagesAreRefusedByName) {
  const std::string tiles = folder_ / "tiles";
  const ProcessResult packed =
      run_process({"coco-pack", "--annotations", folder_ / "b.json", "--images",
                   scenes_ + "/images/val2017", "--output", tiles, "--tile", "64"});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  expect_refusal(
      run_process(command({a_, tiles}, "run", 1)), 78,
      {cat("--train: ", tiles, " and ", a_, ": the one holds tiles, the other whole images"),
       "; hint: pack both with the same --tile, or both without"});
}

TEST_F(SeveralSets, MustHaveTheSameClassesByName) {
  const Category& known = second_.instances.categories[1];
  const std::string refused = cat(": classes differ from those of ", a_);
  Instances renamed = second_.instances;
  renamed.categories[1].name = "kite";
  const std::string other = pack("other", renamed, "/val2017");
  expect_refusal(
      run_process(command({a_, b_, other}, "run", 1)), 78,
      {cat(other, refused, " (got \"kite\", want "), "; hint: give all sets the same class"});
  Instances fewer = second_.instances;
  std::erase_if(fewer.annotations, [&](const auto& one) { return one.category_id == known.id; });
  std::erase_if(fewer.categories, [&](const auto& one) { return one.id == known.id; });
  const std::string small = pack("small", fewer, "/val2017");
  expect_refusal(run_process(command({a_, small}, "run", 1)), 78,
                 {cat(small, refused, " (got nothing, want \"", known.name, "\")")});
  Instances twice = first_.instances;
  twice.categories[0].name = twice.categories[1].name;
  const std::string first = pack("first", twice, "/train2017");
  std::swap(twice.categories[0].id, twice.categories[2].id);
  const std::string swapped = pack("swapped", twice, "/train2017");
  expect_refusal(run_process(command({first, swapped}, "run", 1)), 78,
                 {cat(swapped, ": classes differ from those of ", first)});
  EXPECT_FALSE(path_exists(folder_ / "run"));
}

TEST_F(SeveralSets, MustAllBeThereAndFitTheTask) {
  expect_refusal(run_process(command({a_, folder_ / "nowhere"}, "run", 1)), 66,
                 {folder_ / "nowhere"});
  const Job images(Task::kClassification);
  expect_refusal(run_process(command({a_, images.train_shards()}, "run", 1)), 78,
                 {images.train_shards()});
}

}  // namespace
}  // namespace retina
