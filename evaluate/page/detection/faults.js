// The kinds of errors: what they are called, and what helps against them.

const FAULTS = {
  classification: {
    name: "Classification",
    what: "wrong class",
    hint: "The box is right, the class is wrong. Look at the confusions below: are the two classes " +
      "labelled alike, and does the rarer one have enough examples?",
  },
  localisation: {
    name: "Localisation",
    what: "box is off",
    hint: "The class is right, the box is too far off. Check that the annotations draw boxes alike; " +
      "a larger input size or longer training tightens boxes.",
  },
  both: {
    name: "Both",
    what: "wrong class, box is off",
    hint: "Wrong class and a box that is off. What cures the two kinds above cures this one.",
  },
  duplicate: {
    name: "Duplicate",
    what: "found twice",
    hint: "An object that was found already. A lower --nms-threshold removes more of these.",
  },
  background: {
    name: "Background",
    what: "nothing there",
    hint: "Found where no object is labelled. Are objects unlabelled (see the list of annotations " +
      "that look wrong)? If not, add images that show what is mistaken for an object.",
  },
  missed: {
    name: "Missed",
    what: "missed",
    hint: "Objects that no detection accounts for. Look at the largest ones below; small ones want " +
      "a larger input size.",
  },
};
