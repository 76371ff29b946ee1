// A small set of any annotation format in a folder of its own, and what reading it says.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "preprocess/formats/annotation_source.h"
#include "shared/base/file.h"
#include "tests/preprocess/small_classes.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {

struct SmallSource {
  TestFolder folder;
  AnnotationSource source;

  // Annotations in FOLDER/`annotations`, images in FOLDER/images.
  SmallSource(AnnotationFormat format, const char* annotations)
      : source{.format = format, .path = folder / annotations, .images = folder / "images"} {}

  void write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path(folder / name);
    std::filesystem::create_directories(path.parent_path());
    write_file_atomically(path.string(), bytes);
  }
  Instances read() const { return read_annotations(source).instances; }
  // Both without the path of the folder.
  std::string log() const {
    testing::internal::CaptureStderr();
    read();
    return without_folder(testing::internal::GetCapturedStderr(), folder.path());
  }
  std::string refused(ErrorKind kind = ErrorKind::kData) const {
    return without_folder(refusal_of(kind, [&] { read(); }), folder.path());
  }
};

}  // namespace retina
