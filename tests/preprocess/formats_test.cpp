// What is wrong in a file of each format is said with its line.
#include <gtest/gtest.h>

#include <map>

#include "tests/preprocess/small_source.h"

namespace retina {
namespace {

// A file of `source` in which `from` is now `to`, and what is said then.
struct Damage {
  const char* name;
  AnnotationFormat format;
  const char *file, *from, *to, *told;
};

class DamagedFormats : public testing::TestWithParam<Damage> {};

TEST_P(DamagedFormats, AreNamedWithTheirLine) {
  std::map<std::string, std::string> files{
      {"xml/a.xml",
       "<annotation>\n<filename>a.jpg</filename>\n<size><width>8</width><height>8</height></size>\n"
       "<object>\n<name>owl</name>\n<bndbox><xmin>1</xmin><ymin>1</ymin>\n<xmax>5</xmax>"
       "<ymax>6</ymax></bndbox>\n</object>\n</annotation>\n"},
      {"boxes.csv", "a.jpg,1,1,5,6,owl\nb.jpg,,,,,\n"},
      {"classes.csv", "owl,3\nelk,4\n"},
      {"data.yaml", "train: images\nnames: [owl, elk]\n"},
      {"images/a.jpg", ""},
      {"labels/a.txt", "0 .5 .5 .25 .25\n1 .5 .5 .25 .25\n"}};
  std::string& text = files.at(GetParam().file);
  const std::size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(GetParam().from).size(), GetParam().to);
  const std::map<AnnotationFormat, const char*> paths{{AnnotationFormat::kVoc, "xml"},
                                                      {AnnotationFormat::kCsv, "boxes.csv"},
                                                      {AnnotationFormat::kYolo, "data.yaml"}};
  SmallSource set(GetParam().format, paths.at(GetParam().format));
  for (const auto& [name, content] : files) set.write(name, content);
  if (GetParam().format == AnnotationFormat::kCsv) set.source.classes = set.folder / "classes.csv";
  EXPECT_EQ(set.refused(), cat(GetParam().file, ": ", GetParam().told));
}

constexpr auto kVoc = AnnotationFormat::kVoc;
constexpr auto kCsv = AnnotationFormat::kCsv;
constexpr auto kYolo = AnnotationFormat::kYolo;

INSTANTIATE_TEST_SUITE_P(
    Each, DamagedFormats,
    testing::Values(
        Damage{"VocIsNoXml", kVoc, "xml/a.xml", "</object>", "",
               "line 9: is not XML: Start-end tags mismatch"},
        Damage{"VocHasNoName", kVoc, "xml/a.xml", "<name>owl</name>", "",
               "line 4: <object> has no <name>"},
        Damage{"VocHasAnEmptyName", kVoc, "xml/a.xml", "owl", "", "line 5: <name> is empty"},
        Damage{"VocHasANameThatIsNotUtf8", kVoc, "xml/a.xml", "owl", "caf\xE9",
               "line 5: is not UTF-8 (got \"caf\\xe9\")"},
        Damage{"VocHasAFileNameThatIsNotUtf8", kVoc, "xml/a.xml", "a.jpg", "\xFF.jpg",
               "line 2: is not UTF-8 (got \"\\xff.jpg\")"},
        Damage{"VocHasNoNumber", kVoc, "xml/a.xml", "<xmax>5", "<xmax>5px",
               "line 7: xmax: got \"5px\", want a number"},
        Damage{"VocHasCornersTheOtherWayRound", kVoc, "xml/a.xml", "<ymax>6", "<ymax>0",
               "line 6: ymax is less than ymin"},
        Damage{"VocHasTwoBoxesInAnObject", kVoc, "xml/a.xml", "</bndbox>", "</bndbox>\n<bndbox/>",
               "line 8: <object> has two <bndbox>, want one"},
        Damage{"VocHasAnAngle", kVoc, "xml/a.xml", "<xmin>", "<angle>0.5</angle><xmin>",
               "line 6: <bndbox> has an <angle>, but rotated boxes cannot be trained on"},
        Damage{"VocHasARotation", kVoc, "xml/a.xml", "<bndbox>",
               "<attributes><attribute><name>rotation</name><value>30.0</value></attribute>"
               "</attributes><bndbox>",
               "line 6: <object> has a rotation, but rotated boxes cannot be trained on"},
        Damage{"VocHasTwoCorners", kVoc, "xml/a.xml", "<xmin>", "<xmin>9</xmin><xmin>",
               "line 6: <bndbox> has two <xmin>, want one"},
        Damage{"VocHasTwoFileNames", kVoc, "xml/a.xml", "<filename>",
               "<filename>z.jpg</filename><filename>",
               "line 2: <annotation> has two <filename>, want one"},
        Damage{"VocHasTwoAnnotations", kVoc, "xml/a.xml", "</annotation>",
               "</annotation><annotation/>",
               "line 9: has a second <annotation>, want a file an image"},
        Damage{"VocHasAnEntity", kVoc, "xml/a.xml", "<annotation>",
               "<!DOCTYPE a [<!ENTITY y \"owl\">]><annotation>",
               "line 1: declares an entity, which is not read; write its text where it is used"},
        Damage{"VocHasABadSize", kVoc, "xml/a.xml", "<width>8", "<width>8.5",
               "line 3: width: got 8.5, want a whole number, 0 or more"},
        Damage{"CsvHasTooFewFields", kCsv, "boxes.csv", "b.jpg,,,,,", "b.jpg,,",
               "line 2: has 3 fields, want 6: PATH,X1,Y1,X2,Y2,CLASS, or PATH,,,,, for an image "
               "without boxes"},
        Damage{"CsvHasNoNumber", kCsv, "boxes.csv", ",5,", ",nan,",
               "line 1: x2: got \"nan\", want a number"},
        Damage{"CsvHasNoPath", kCsv, "boxes.csv", "b.jpg,", ",", "line 2: has no path"},
        Damage{"CsvHasANameThatIsNotUtf8", kCsv, "boxes.csv", "b.jpg", "\xE9.jpg",
               "line 2: is not UTF-8 (got \"\\xe9.jpg,,,,,\")"},
        Damage{"CsvHasAClassThatIsNotUtf8", kCsv, "classes.csv", "elk", "\xE9lan",
               "line 2: is not UTF-8 (got \"\\xe9lan,4\")"},
        Damage{"CsvHasAClassTwice", kCsv, "classes.csv", "elk", "owl",
               "line 2: class \"owl\" appears twice"},
        Damage{"CsvHasAnIdTwice", kCsv, "classes.csv", "4", "3",
               "line 2: id 3 already appears on line 1"},
        Damage{"CsvHasABadId", kCsv, "classes.csv", "4", "4.5",
               "line 2: id: got 4.5, want a whole number"},
        Damage{"YoloHasNoNames", kYolo, "data.yaml", "names", "name",
               "key \"names\" is missing, or no list of classes"},
        Damage{"YoloHasANameThatIsNotUtf8", kYolo, "data.yaml", "elk", "\xE9lan",
               "line 2: is not UTF-8 (got \"names: [owl, \\xe9lan]\")"},
        Damage{"YoloIsNoYaml", kYolo, "data.yaml", "[owl", "[owl: [",
               "line 3: is not valid YAML: end of sequence flow not found"},
        Damage{"YoloHasAnUnknownClass", kYolo, "labels/a.txt", "1 .5", "2 .5",
               "line 2: class: got 2, which data.yaml does not name"},
        Damage{"YoloHasTooFewNumbers", kYolo, "labels/a.txt", "1 .5 .5 .25 .25", "1 .5 .5",
               "line 2: has 3 numbers, want CLASS CX CY WIDTH HEIGHT, or CLASS and the points of "
               "an outline"},
        Damage{"YoloHasPixels", kYolo, "labels/a.txt", "0 .5", "0 320.00",
               "line 1: coordinate: got 320.00, want 0 to 1, a share of the image's side"},
        Damage{"YoloHasANegativeSize", kYolo, "labels/a.txt", ".25 .25", ".25 -.005",
               "line 1: height: got -.005, want 0 to 1"}),
    [](const auto& suite) { return suite.param.name; });

}  // namespace
}  // namespace retina
