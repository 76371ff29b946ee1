#include "preprocess/app.h"

int main(int argc, char** argv) {
  return retina::coco_pack(argc, argv);
}
