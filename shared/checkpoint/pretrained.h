// Weights that have a name: those that `make weights` fetches. Their table is docker/weights.txt,
// compiled in; here is where the programs find their files.
#pragma once

#include <string>
#include <vector>

namespace retina {

// docker/weights.txt as it stood when the program was built.
extern const char* const kWeightsTable;

struct PretrainedWeights {
  std::string name = {};    // "coco-v2"
  std::string source = {};  // what was imported: "retinanet_resnet50_fpn_v2_coco-5905b1c5.pth"

  // The checkpoint that retina-weights makes of it.
  std::string file() const;
};

// In the table's order.
const std::vector<PretrainedWeights>& pretrained_weights();
// "coco-v2, coco-v1, ..., imagenet-v2-BACKBONE".
std::string pretrained_names();
// Null for anything but the name of one.
const PretrainedWeights* find_pretrained(const std::string& name);
// `name`'s of another backbone: imagenet-v2 of resnet18 is imagenet-v2-resnet18. Null where there
// is none.
const PretrainedWeights* find_backbone(const std::string& name, const std::string& backbone);
// The one whose file `path` ends with; null for another file.
const PretrainedWeights* pretrained_of_file(const std::string& path);

// Where its file is, for the data in `near` ("": of the working directory): in $RETINA_WEIGHTS, or
// in a folder `weights` in `near`, beside it or beside a folder above it, the nearest first. ""
// where it is in none.
std::string locate(const PretrainedWeights& weights, const std::string& near);
// Where it would be after fetch_command.
std::string fetched_path(const PretrainedWeights& weights, const std::string& near);
// The command that fetches it to where `locate` finds it: into $RETINA_WEIGHTS where that is a
// folder `weights`, else into `weights` beside `near`, or beside `shards` where that is the folder
// around it.
std::string fetch_command(const PretrainedWeights& weights, const std::string& near);

// Who asks: "--init", and the data beside which weights are looked for.
struct NamedBy {
  std::string option, near;
};
// It is nowhere: throws kNoInput.
[[noreturn]] void refuse_missing(const PretrainedWeights& weights, const NamedBy& by);
// As find_pretrained; warns where the working directory has something of that name, too.
const PretrainedWeights* take_name(const std::string& given, const NamedBy& by);
// A name promises the weights that were fetched: throws kData where `file` is not an import of
// them, else the log says that it is taken.
void check_import(const PretrainedWeights& weights, const std::string& file, const NamedBy& by);
// A model that is given: where it is a name, the file of these weights; else as it is. Throws as
// above, and kNoInput for a word that is neither a name nor a file.
std::string resolve_name(const std::string& given, const NamedBy& by);

}  // namespace retina
