// VOC files as labelling tools write them: names, classes, shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "shared/image/jpeg.h"
#include "tests/preprocess/small_source.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Xml = std::map<std::string, std::string>;

// A VOC set of files with these contents behind <annotation>, and images of these names.
struct SmallVoc : SmallSource {
  explicit SmallVoc(const Xml& xml, const std::vector<std::string>& images = {"a.jpg"})
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

TEST(Voc, ImagesWithoutAnXmlFileAreTold) {
  const Xml one{{"a.xml", "<filename>a.jpg</filename>" + object("owl")}};
  const SmallVoc set(one, {"a.jpg", "b.jpg", "sub/c.PNG", "notes.txt"});
  EXPECT_THAT(file_names(set.read()), ElementsAre("a.jpg"));
  EXPECT_THAT(set.log(), HasSubstr("images: 2 images left out without an XML file (first: b.jpg)"));
  EXPECT_THAT(SmallVoc(one).log(), IsEmpty());
}

TEST(Voc, ObjectsNeedAnUprightBoxOfTheirOwn) {
  const auto refused = [](const std::string& text) {
    return SmallVoc(Xml{{"a.xml", "<filename>a.jpg</filename>" + text}}).refused();
  };
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

TEST(Voc, TakesSizesFromTheImagesWhereNoneAreStated) {
  const SmallVoc set(
      Xml{{"a.xml", "<filename>a.jpg</filename>" + object("owl")},
          {"b.xml", "<filename>b.jpg</filename><size><width>7</width><height>5</height></size>"}});
  set.write("images/a.jpg", encode_jpeg(Image(40, 20), 50));
  const Instances read = set.read();
  EXPECT_EQ(read.images.at(0).width, 40);
  EXPECT_EQ(read.images.at(1).height, 5);
}

TEST(Voc, FilesAreDecodedFromWhatTheyDeclareAndUnusedTextNeedNotBeUtf8) {
  const SmallVoc set(Xml{{"a.xml", "<owner>Andr\xE9</owner><filename>a.jpg</filename>"}});
  const std::string car = "\xE6\xB1\xBD\xE8\xBD\xA6", in_gbk = "\xC6\xFB\xB3\xB5";
  set.write("xml/b.xml",
            "<?xml version=\"1.0\" encoding=\"gb2312\"?>\n<annotation><owner>\xC6\xFB</owner>"
            "<filename>" +
                in_gbk + ".jpg</filename>" + object(in_gbk) + "</annotation>");
  const Instances read = set.read();
  EXPECT_EQ(read.categories.at(0).name, car);
  EXPECT_EQ(read.images.at(1).file_name, car + ".jpg");
}

TEST(Voc, FilesOfSomethingElseOrOfAnotherFilesImageAreNamed) {
  const SmallVoc set(Xml{{"a.xml", "<filename>a.jpg</filename>" + object("owl")},
                         {"twice.xml", "\n<filename>a.jpg</filename>"}});
  EXPECT_EQ(set.refused(), "xml/twice.xml: line 2: describes a.jpg, which a.xml already describes");
  set.write("xml/twice.xml", "<?xml version=\"1.0\"?>\n<svg></svg>\n");
  EXPECT_THAT(set.refused(), HasSubstr("twice.xml: line 1: has no <annotation>, but <svg>"));
}

// A list ImageSets/Main/NAME.txt beside the folder Annotations.
struct VocList : SmallSource {
  VocList() : SmallSource(AnnotationFormat::kVoc, "ImageSets/Main/train.txt") {
    for (const char* name : {"1", "2", "3"}) {
      write(cat("Annotations/", name, ".xml"),
            "<annotation>" + object(cat("c", name)) + "</annotation>");
    }
    write("images/1.jpg", "");
  }
  void list(const std::string& text) const { write("ImageSets/Main/train.txt", text); }
};

TEST(Voc, AListTakesItsImagesAndTheClassesOfAll) {
  const VocList set;
  set.list("2  \r\n\n1");
  const Instances read = set.read();
  EXPECT_THAT(file_names(read), ElementsAre("1", "2"));
  EXPECT_EQ(read.categories.size(), 3U);
  EXPECT_EQ(read.annotations.size(), 2U);
}

TEST(Voc, AListNamesItsBadLinesAndNeedsItsFolders) {
  VocList set;
  const auto refused = [&](const std::string& text) {
    set.list(text);
    return set.refused();
  };
  const std::string path = "ImageSets/Main/train.txt: ";
  EXPECT_EQ(refused("1\ngone\n"), path + "line 2: gone.xml is not in Annotations");
  EXPECT_EQ(refused("1\n\n1"), path + "line 3: 1 already appears on line 1");
  EXPECT_EQ(refused("1  1\n2 -1\n"), path + "line 1: got \"1  1\", want a name alone");
  EXPECT_EQ(refused("\n \n"), path + "lists no images");
  set.write("train.txt", "1");
  set.source.path = set.folder / "train.txt";
  EXPECT_THAT(set.refused(ErrorKind::kNoInput), HasSubstr("for its XML files, is not a folder"));
}

}  // namespace
}  // namespace retina
