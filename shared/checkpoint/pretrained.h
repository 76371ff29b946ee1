// Weights that have a name: those that `make weights` fetches. Their table is docker/weights.txt,
// compiled in; this file tells the programs where the weights' files are.
#pragma once

#include <string>
#include <vector>

namespace retina {

// docker/weights.txt as it stood when the program was built.
extern const char* const kWeightsTable;

struct PretrainedWeights {
  std::string name = {};    // "coco-v2"
  std::string source = {};  // the imported file: "retinanet_resnet50_fpn_v2_coco-5905b1c5.pth"

  // Returns the name of the checkpoint that retina-weights makes of it.
  std::string file() const;
};

// Returns all weights in the table's order.
const std::vector<PretrainedWeights>& pretrained_weights();
// Returns "coco-v2, coco-v1, ..., imagenet-v2-BACKBONE".
std::string pretrained_names();
// Returns the weights of this name; null for anything else.
const PretrainedWeights* find_pretrained(const std::string& name);
// Returns the weights that correspond to `name` for another backbone: imagenet-v2 of resnet18 is
// imagenet-v2-resnet18. Null if there are none.
const PretrainedWeights* find_backbone(const std::string& name, const std::string& backbone);
// Returns the weights whose file name ends `path`; null for another file.
const PretrainedWeights* pretrained_of_file(const std::string& path);

// Returns the path of the weights' file, for the data in `near` ("": in the working directory): in
// $RETINA_WEIGHTS, or in a folder `weights` in `near`, beside it or beside a folder above it, the
// nearest first. "" if it is in none.
std::string locate(const PretrainedWeights& weights, const std::string& near);
// Returns the path that the file would have after fetch_command.
std::string fetched_path(const PretrainedWeights& weights, const std::string& near);
// Returns the command that fetches the file to where `locate` finds it: into $RETINA_WEIGHTS if
// that is a folder `weights`, else into `weights` beside `near`, or beside `shards` if that is the
// folder around it.
std::string fetch_command(const PretrainedWeights& weights, const std::string& near);

// The option that asks: "--init", and the data beside which weights are looked for.
struct NamedBy {
  std::string option, near;
};
// Throws kNoInput for weights whose file was not found.
[[noreturn]] void refuse_missing(const PretrainedWeights& weights, const NamedBy& by);
// Looks a name up as find_pretrained does; warns if the working directory has something of that
// name, too.
const PretrainedWeights* take_name(const std::string& given, const NamedBy& by);
// Throws kData unless `file` is an import of the named weights, since a name promises those that
// were fetched; otherwise logs that it is used.
void check_import(const PretrainedWeights& weights, const std::string& file, const NamedBy& by);
// Returns the model's path: for a name, the file of these weights; otherwise `given` itself. Throws
// as above, and kNoInput for a word that is neither a name nor a file.
std::string resolve_name(const std::string& given, const NamedBy& by);

}  // namespace retina
