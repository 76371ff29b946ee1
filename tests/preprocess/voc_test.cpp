// VOC files as labelling tools write them: names, classes, shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/preprocess/small_source.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Xml = std::map<std::string, std::string>;

// A VOC set of files with these contents behind <annotation>, and images of these names.
struct SmallVoc : SmallSource {
  explicit SmallVoc(const Xml& xml, const std::vector<std::string>& images = {"a.jpg", "b.jpg"})
      : SmallSource(AnnotationFormat::kVoc, "xml") {
    for (const auto& [name, text] : xml) {
      write("xml/" + name, "<annotation>" + text + "</annotation>\n");
    }
    for (const std::string& name : images) write("images/" + name, "");
  }
};

std::string object(const std::string& name, const std::string& shape =
                                                "<bndbox><xmin>1</xmin><ymin>2</ymin>"
                                                "<xmax>3</xmax><ymax>4</ymax></bndbox>") {
  return "\n<object><name>" + name + "</name>" + shape + "</object>";
}

std::vector<std::string> file_names(const Instances& read) {
  std::vector<std::string> names;
  for (const ImageInfo& image : read.images) names.push_back(image.file_name);
  return names;
}

TEST(Voc, NamesTheRightLineOfALongFile) {
  std::string text = "<filename>a.jpg</filename>";
  for (int i = 0; i < 1000; ++i) text += object("owl");
  const SmallVoc set(Xml{{"a.xml", text + object("owl", "<bndbox><xmin>x</xmin></bndbox>")}});
  EXPECT_EQ(set.refused(), "xml/a.xml: line 1002: xmin: got \"x\", want a number");
}

TEST(Voc, ClassNamesLoseTheSpacesAroundThem) {
  const SmallVoc set(
      Xml{{"a.xml", "<filename>a.jpg</filename>" + object(" cat") + object("\n cat\t\n") +
                        object("\xE3\x80\x80"
                               "cat\xC2\xA0") +
                        object("cat") + object("sea cat")}});
  const Instances read = set.read();
  ASSERT_EQ(read.categories.size(), 2U);
  EXPECT_EQ(read.categories[0].name, "cat");
  EXPECT_EQ(read.categories[1].name, "sea cat");
  EXPECT_EQ(read.annotations.size(), 5U);
  EXPECT_THAT(set.log(), HasSubstr("xml: class names have spaces around them, which are dropped "
                                   "(boxes: \"\\n cat\\t\\n\" 1, \" cat\" 1, "));
}

TEST(Voc, ClassNamesThatDifferByCaseAreTold) {
  const SmallVoc set(
      Xml{{"a.xml", "<filename>a.jpg</filename>" + object("cat") + object("Cat ") + object("cat") +
                        object("dog") + object("\xD0\x9A\xD0\xBE\xD1\x82") +
                        object("\xD0\xBA\xD0\xBE\xD1\x82")}});
  EXPECT_EQ(set.read().categories.size(), 5U);
  EXPECT_THAT(set.log(),
              HasSubstr("xml: classes are kept separate although their names differ only in "
                        "case, spaces or the form of accents (boxes: "
                        "\"Cat\" 1, \"cat\" 2, \"\xD0\x9A\xD0\xBE\xD1\x82\" 1, "
                        "\"\xD0\xBA\xD0\xBE\xD1\x82\" 1)"));
  const SmallVoc apart(
      Xml{{"a.xml", "<filename>a.jpg</filename>" + object("cat") + object("dog")}});
  EXPECT_THAT(apart.log(), IsEmpty());
}

TEST(Voc, GoesByTheNameOfTheXmlFileWhereThereIsNoOther) {
  for (const char* filename : {"", "<filename/>", "<filename> </filename>"}) {
    const SmallVoc set(Xml{{"a.xml", filename + object("owl")},
                           {"sub/b.XML", filename},
                           {"sub/c.xml", "<filename>c.jpg</filename>"},
                           {"sub/d.xml", "<filename>d</filename>"}},
                       {"a.PNG", "b.jpg", "sub/c.jpg", "c.jpg", "sub/d.JPEG"});
    EXPECT_THAT(file_names(set.read()), ElementsAre("a", "b", "sub/c.jpg", "sub/d"));
    EXPECT_THAT(set.log(), IsEmpty());
  }
}

TEST(Voc, TellsOfImagesThatAreCalledAsTheXmlFiles) {
  const SmallVoc set(Xml{{"a.xml", "<filename>IMG_1.jpg</filename>" + object("owl")},
                         {"c.xml", "<filename>b.jpg</filename>"}});
  EXPECT_THAT(file_names(set.read()), ElementsAre("IMG_1.jpg", "b.jpg"));
  EXPECT_THAT(set.log(),
              HasSubstr("images: 1 XML file names a missing image, although an image with the "
                        "XML file's own name exists (a.xml names IMG_1.jpg; found a.jpg); correct "
                        "<filename>, or remove it to go by"));
}

TEST(Voc, ObjectsNeedAnUprightBoxOfTheirOwn) {
  const auto refused = [](const std::string& text) {
    return SmallVoc(Xml{{"a.xml", "<filename>a.jpg</filename>" + text}}).refused();
  };
  EXPECT_EQ(refused(object("owl", "<robndbox><cx>1</cx></robndbox>")),
            "xml/a.xml: line 2: <object> has a <robndbox> and no <bndbox>; rotated boxes of XML "
            "files are not read, export upright boxes");
  EXPECT_EQ(refused(object("owl", "\n<polygon><pt><x>1</x></pt></polygon>")),
            "xml/a.xml: line 3: <object> has a <polygon> and no <bndbox>; outlines of XML files "
            "are not read, export upright boxes");
  EXPECT_EQ(refused(object("owl", "<part><bndbox/></part>")),
            "xml/a.xml: line 2: <object> has no <bndbox>");
  EXPECT_EQ(refused("\n<objects>" + object("owl") + "</objects>"),
            "xml/a.xml: line 3: <bndbox> is in <object>, want it in an <object> of <annotation>");
}

TEST(Voc, PartsOfAnObjectAreNoBoxesOfTheirOwn) {
  const SmallVoc set(Xml{
      {"a.xml",
       "<filename>a.jpg</filename>" +
           object("owl",
                  "<part><name>head</name><bndbox><xmin>7</xmin></bndbox></part><polygon/><bndbox>"
                  "<xmin>\n1.5\n</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox>")}});
  const Instances read = set.read();
  ASSERT_EQ(read.annotations.size(), 1U);
  EXPECT_EQ(read.annotations[0].bbox, (std::array<double, 4>{1.5, 2, 1.5, 2}));
  EXPECT_EQ(read.categories.size(), 1U);
}

TEST(Voc, WhatSystemsLeaveAmongTheFilesIsPassedOver) {
  const SmallVoc set(Xml{{"a.xml", "<filename>a.jpg</filename>" + object("owl")},
                         {"__MACOSX/b.xml", "<filename>b.jpg</filename>"},
                         {".ipynb_checkpoints/a.xml", "<filename>a.jpg</filename>"}});
  set.write("xml/._a.xml", std::string("\0\5\x16\7", 4));
  set.write("xml/.DS_Store", "");
  EXPECT_THAT(file_names(set.read()), ElementsAre("a.jpg"));
}

}  // namespace
}  // namespace retina
