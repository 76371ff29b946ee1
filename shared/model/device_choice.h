// --device of every program that computes.
#pragma once

#include "shared/base/choices.h"

namespace retina {

enum class DeviceChoice { kAuto, kCpu, kCuda };  // kAuto: a GPU if one is found

inline const Choices<DeviceChoice> kDeviceChoices = {
    {"auto", DeviceChoice::kAuto}, {"cpu", DeviceChoice::kCpu}, {"cuda", DeviceChoice::kCuda}};

}  // namespace retina
