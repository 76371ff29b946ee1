#include "preprocess/app.h"
#include "shared/base/working_folder.h"

int main(int argc, char** argv) {
  return retina::coco_pack(argc, argv);
}
