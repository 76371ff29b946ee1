// Other tools' names of options that several of the four programs have (OptionRules::foreign).
#pragma once

namespace retina {

inline constexpr const char* kForeignOutputs =
    "project name save-dir work-dir output-dir out out-dir outdir outputs o output-path run-dir "
    "run-name log-dir logdir checkpoint-dir checkpoints-dir ckpt-dir save-path model-dir "
    "default-root-dir export-dir output-file snapshot-path";
inline constexpr const char* kForeignOverwrites = "exist-ok force overwrite-output-dir clobber";
inline constexpr const char* kForeignData =
    "dataset data-path data-dir dataset-path data-root dataroot root coco-path val val-dir "
    "val-data val-path validation-data valid test-dir train train-dir train-data train-path "
    "data-config";
inline constexpr const char* kForeignModels =
    "weights pretrained pretrained-weights load-from load-weights weights-path checkpoint "
    "checkpoint-path ckpt ckpt-path model-path model model-file snapshot arch network";
inline constexpr const char* kForeignThreads =
    "workers num-workers j n-workers nworkers workers-per-gpu num-threads cpu-workers "
    "dataloader-num-workers n-cpu jobs nproc";
inline constexpr const char* kForeignScores =
    "conf conf-thres confidence score-thr score-thresh conf-threshold confidence-threshold "
    "score-thres threshold thresh conf-thresh";
inline constexpr const char* kForeignNms =
    "iou iou-thres nms nms-thr nms-thresh iou-threshold iou-thresh";
inline constexpr const char* kForeignMostDetections =
    "max-det max-dets detections-per-img max-per-img keep-top-k topk";
inline constexpr const char* kForeignTiles =
    "tile-size patch-size slice-size slice-height slice-width chip-size crop-size tiles slice "
    "tiling overlap patch-overlap slice-overlap overlap-ratio overlap-height-ratio "
    "overlap-width-ratio";

inline constexpr const char* kOneProcessAGpu =
    "one process drives one GPU: mpirun -np N starts N of them, CUDA_VISIBLE_DEVICES chooses";

}  // namespace retina
