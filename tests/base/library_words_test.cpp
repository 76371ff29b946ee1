#include "shared/base/library_words.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

TEST(LibraryReason, LeavesOutWhereInTheLibrary) {
  EXPECT_EQ(library_reason("Exception from src/inference/src/cpp/core.cpp:105:\n"
                           "Check 'model' failed at src/frontends/onnx/frontend.cpp:12:\n"
                           "FrontEnd API failed with OpConversionFailure:\n"
                           "While validating ONNX node '<Node(Add): y>': shapes differ.\n\n"),
            "FrontEnd API failed with OpConversionFailure; "
            "While validating ONNX node '<Node(Add): y>': shapes differ");
  EXPECT_EQ(library_reason("Exception from src/a.cpp:7: Unable to read the model: m.onnx"),
            "Unable to read the model: m.onnx");
  EXPECT_EQ(library_reason("[enforce fail at inline_container.cc:145] . PytorchStreamReader failed "
                           "reading zip archive: not a ZIP archive"),
            "PytorchStreamReader failed reading zip archive: not a ZIP archive");
  EXPECT_EQ(library_reason("model.cpp:12: no such layer"), "no such layer");
}

TEST(LibraryReason, EndsBeforeABacktrace) {
  EXPECT_EQ(library_reason("The size of a (3) must match b (4)\n"
                           "Exception raised from infer_size_impl at ExpandUtils.cpp:31\n"
                           "frame #0: c10::Error::Error(...)\n"),
            "The size of a (3) must match b (4)");
}

TEST(LibraryReason, IsOneShortLine) {
  EXPECT_EQ(library_reason(""), "no reason given");
  EXPECT_EQ(library_reason("Exception from src/a.cpp:105:\n"), "no reason given");
  const std::string long_one = library_reason(std::string(10'000, 'x'));
  EXPECT_EQ(long_one.size(), 303U);
  EXPECT_TRUE(long_one.ends_with("..."));
}

TEST(LibraryReason, KeepsWhatHasNoPlace) {
  EXPECT_EQ(library_reason("key: value"), "key: value");
  EXPECT_EQ(library_reason("read file.cpp: it is gone"), "read file.cpp: it is gone");
}

}  // namespace
}  // namespace retina
